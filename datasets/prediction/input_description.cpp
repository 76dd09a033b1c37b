#include "datasets/prediction/input_description.h"

#include <algorithm>
#include <optional>

#include "datasets/dataset.h"
#include "datasets/dataset_description.h"
#include "datasets/dataset_format.h"
#include "datasets/dataset_images.h"
#include "datasets/reader_memory.h"
#include "datasets/tokens/tokenized_text.h"
#include "datasets/transforms/transform_chain.h"
#include "engine/device/processor.h"

namespace trainer {
namespace {

/// Pixels behind the transforms of validation, where these or declared keys tell their size.
std::optional<TensorType> known_images(const DataConfig& config) {
  const bool are_files = holds_image_files(config);
  const bool are_stored = config.type == DataType::digits || config.type == DataType::cifar10 ||
                          config.type == DataType::idx || (are_files && !config.shape.empty());
  const Shape stored = config.shape.empty() ? fixed_shape_of(config.type) : Shape(config.shape);
  std::optional<Pair> size;
  if (are_stored && stored.rank() == 3) size = Pair{stored[0], stored[1]};
  if (!are_files && !size) return std::nullopt;
  const TransformChain chain(config.validation_transforms);
  size = chain.size_after(size);
  if (!size) return std::nullopt;
  return TensorType{DType::u8,
                    Shape{(*size)[0], (*size)[1], chain.channels_after(are_files ? config.channels : stored[2])}};
}

/// Windows of tokens, where declared keys or the tokenizer tell of how many tokens there are.
std::optional<InputDescription> known_tokens(const DataConfig& config) {
  const bool is_text = config.type == DataType::text;
  if (!is_text && (config.type != DataType::tokens || config.classes == 0)) return std::nullopt;
  InputDescription input;
  input.type = {DType::i32, Shape{config.sequence_length}};
  input.num_indices = config.classes;
  if (is_text && config.classes == 0)
    input.num_indices = static_cast<std::int64_t>(tokenizer_named(tokenizer_name(config)).num_ids());
  return input;
}

}  // namespace

DataDescription describe_inputs(const DataConfig& config, std::uint64_t seed, const Preprocessing& preprocessing) {
  DataDescription data;
  InputDescription& input = data.inputs.emplace_back();
  if (config.type == DataType::csv && !preprocessing.features.empty()) {
    input.type = {DType::f32, Shape{static_cast<std::int64_t>(preprocessing.features.size())}};
  } else if (const std::optional<TensorType> images = known_images(config)) {
    input.type = *images;
    set_normalization(config, input);
  } else if (const std::optional<InputDescription> tokens = known_tokens(config)) {
    input = *tokens;
  } else {
    data.inputs = describe_data(config, seed).inputs;
  }
  return data;
}

void count_input_readers(const DataConfig& config, DataDescription& data) {
  data.num_train = 1;
  const TensorType& sample = data.inputs.front().type;
  if (sample.dtype != DType::u8) return;
  constexpr int most = 16;
  data.num_readers = config.workers > 0 ? config.workers : std::clamp(usable_threads() - 1, 1, most);
  data.estimates_readers = true;
  const std::int64_t channels = holds_image_files(config) ? config.channels : sample.shape[2];
  ImageFacts usual =
      facts_of_pixels({DType::u8, Shape{usual_image_side, usual_image_side, channels}}, {DType::i32, {}});
  constexpr std::int64_t usual_file_bytes = std::int64_t{2} << 20;
  usual.most_stored_bytes = usual_file_bytes;
  data.reader_bytes = reader_memory({.images = usual,
                                     .masks = nullptr,
                                     .has_masks = false,
                                     .channels = channels,
                                     .transforms = config.validation_transforms,
                                     .is_cached = false})
                          .total();
}

}  // namespace trainer
