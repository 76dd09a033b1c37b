#include "datasets/prediction/sample_file.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "datasets/arrays/array_field.h"
#include "datasets/arrays/chosen_arrays.h"
#include "datasets/input_file.h"

namespace trainer {
namespace {

/// Samples of one array.
class ArraySamples final : public SampleFile {
 public:
  ArraySamples(std::string path, ArraySource source, const ArrayFieldPlan& plan)
      : SampleFile(source.array().shape[0]), path_(std::move(path)), field_(std::move(source), plan) {}

 private:
  void read(std::int64_t index, PredictionInput& input) override {
    input.name = fmt::format("{}[{}]", path_, index);
    const TensorType type = field_.type();
    input.bytes.resize(static_cast<std::size_t>(type.num_bytes()));
    if (type.dtype == DType::u8) {
      input.size = {type.shape[0], type.shape[1]};
      input.channels = type.shape[2];
    }
    try {
      field_.read(index, input.bytes.data());
    } catch (const DataError& error) {
      input.error = error.what();
    }
  }

  std::string path_;
  ArrayField field_;
};

/// Whether the axes of images are (N, C, H, W): as the configuration says, else where the model's channels are.
bool has_channels_in_front(const DataConfig& config, const ArraySource& source, std::int64_t channels) {
  if (config.layout != ImageLayout::automatic) return config.layout == ImageLayout::channels_first;
  const Shape& shape = source.array().shape;
  if (shape[3] == channels) return false;
  if (shape[1] == channels) return true;
  throw source.error(
      fmt::format("{} has no axis of {}, as many channels as the model takes", source.array().type, channels));
}

std::unique_ptr<SampleFile> open_array(const std::string& path, const DataConfig& config, const TensorType& sample,
                                       std::int64_t channels) {
  ArraySource source = choose_prediction_array(config, path);
  const StoredArray& array = source.array();
  if (array.is_deflated()) throw source.error("it is packed, and would be held whole; save it by np.save or np.savez");
  if (channels > 0 && array.element != ArrayElement::u8)
    throw source.error(
        fmt::format("its samples are {}, and the model takes images of bytes: x.astype(np.uint8)", array.type));
  const Shape& shape = array.shape;
  const std::int64_t wanted_channels = channels > 0 ? channels : sample.shape.rank() == 3 ? sample.shape[2] : 0;
  ArrayFieldPlan plan;
  plan.use = channels > 0 ? ArrayUse::pixels : ArrayUse::numbers;
  if (shape.rank() == 4 && wanted_channels > 0) {
    const bool in_front = has_channels_in_front(config, source, wanted_channels);
    plan.of_sample = in_front ? Shape{shape[2], shape[3], shape[1]} : Shape{shape[1], shape[2], shape[3]};
    plan.channels_first = in_front && shape[1] > 1;
  } else if (shape.rank() == 3 && wanted_channels == 1) {
    plan.of_sample = Shape{shape[1], shape[2], 1};
  } else if (shape.rank() == 1) {
    plan.of_sample = Shape{1};
  } else {
    plan.of_sample = Shape(std::span(shape.begin() + 1, shape.end()));
  }
  if (channels > 0 ? plan.of_sample.rank() != 3 : plan.of_sample != sample.shape)
    throw source.error(fmt::format("its samples are {}, and the model takes {}", plan.of_sample.to_string(),
                                   sample.shape.to_string()));
  return std::make_unique<ArraySamples>(path, std::move(source), plan);
}

/// The dimensions of a file of the MNIST family, whose first element is read next: as datasets/idx.cpp has the format.
Shape read_idx_header(InputFile& file) {
  std::array<std::byte, 4> magic{};
  file.read_exactly(magic.data(), magic.size(), "the magic number of an IDX file");
  const int rank = std::to_integer<int>(magic[3]);
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0} || magic[2] != std::byte{8} || rank < 3 || rank > 4)
    throw DataError(
        fmt::format("{}: is no IDX file of images, which begins with 00 00 08 03 or 00 00 08 04", file.name()));
  std::array<std::int64_t, 4> dims{};
  for (int axis = 0; axis < rank; ++axis) {
    std::array<std::byte, 4> word{};
    file.read_exactly(word.data(), word.size(), fmt::format("dimension {} of the IDX header", axis));
    std::int64_t& dim = dims[static_cast<std::size_t>(axis)];
    for (const std::byte byte : word) dim = dim << 8 | std::to_integer<std::int64_t>(byte);
    if (dim == 0) throw DataError(fmt::format("{}: dimension {} is 0, expected at least 1", file.name(), axis));
  }
  return Shape(std::span(dims).first(static_cast<std::size_t>(rank)));
}

/// Read from its begin to its end.
class IdxSamples final : public SampleFile {
 public:
  IdxSamples(std::unique_ptr<InputFile> file, const Shape& shape)
      : SampleFile(shape[0]),
        file_(std::move(file)),
        size_{shape[1], shape[2]},
        channels_(shape.rank() == 4 ? shape[3] : 1) {}

 private:
  void read(std::int64_t index, PredictionInput& input) override {
    input.name = fmt::format("{}[{}]", file_->name(), index);
    input.size = size_;
    input.channels = channels_;
    // A header may claim more than the file has.
    input.bytes = file_->read_vector(static_cast<std::uint64_t>(size_[0] * size_[1] * channels_), "an image");
  }

  std::unique_ptr<InputFile> file_;
  Pair size_;
  std::int64_t channels_;
};

std::unique_ptr<SampleFile> open_idx(const std::string& path, std::int64_t channels) {
  auto file = std::make_unique<InputFile>(path);
  const Shape shape = read_idx_header(*file);
  if (channels == 0)
    throw DataError(fmt::format("{}: its samples are images of bytes, and the model takes numbers", path));
  constexpr std::int64_t most_pixels = std::int64_t{1} << 30;
  if (shape[1] > most_pixels / shape[2] || (shape.rank() == 4 && shape[3] > most_pixels / (shape[1] * shape[2])))
    throw DataError(fmt::format("{}: an image of {} is too large", path, shape.to_string()));
  return std::make_unique<IdxSamples>(std::move(file), shape);
}

}  // namespace

bool SampleFile::next(PredictionInput& input) {
  if (index_ == size_) return false;
  input.below += fmt::format("/{}", index_);
  read(index_++, input);
  return true;
}

std::unique_ptr<SampleFile> open_sample_file(const std::string& path, const DataConfig& config,
                                             const TensorType& sample, std::int64_t channels) {
  constexpr std::string_view endings[] = {".npy", ".npz", ".safetensors"};
  for (const std::string_view ending : endings)
    if (path.ends_with(ending)) return open_array(path, config, sample, channels);
  return open_idx(path, channels);
}

}  // namespace trainer
