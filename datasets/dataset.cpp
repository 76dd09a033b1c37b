#include "datasets/dataset.h"
#include "datasets/cached_images.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <new>
#include <numeric>
#include <stdexcept>

#include "datasets/dataset_description.h"
#include "datasets/dataset_format.h"
#include "datasets/dataset_images.h"
#include "datasets/dataset_list.h"
#include "datasets/image_dataset.h"
#include "datasets/input_file.h"
#include "datasets/split.h"
#include "engine/config/diagnostic.h"
#include "engine/device/processor.h"

namespace trainer {

#define TRAINER_DECLARE_FORMAT(name) DatasetFormat name##_format();
TRAINER_DATASETS(TRAINER_DECLARE_FORMAT)
#undef TRAINER_DECLARE_FORMAT

namespace {

DatasetFormat format_of(DataType type) {
  switch (type) {
#define TRAINER_FORMAT_CASE(name) \
  case DataType::name:            \
    return name##_format();
    TRAINER_DATASETS(TRAINER_FORMAT_CASE)
#undef TRAINER_FORMAT_CASE
  }
  throw InternalError("data.type has no format");
}

/// So many of some samples, chosen by the seed; all where that is their number.
std::vector<std::uint32_t> some_of(std::vector<std::uint32_t> samples, std::int64_t count, std::uint64_t seed) {
  if (count == static_cast<std::int64_t>(samples.size())) return samples;
  std::vector<std::uint32_t> chosen = split_samples(static_cast<std::int64_t>(samples.size()), 0, seed, count).train;
  for (std::uint32_t& each : chosen) each = samples[each];
  return chosen;
}

std::vector<std::uint32_t> all_of(std::int64_t count) {
  std::vector<std::uint32_t> samples(static_cast<std::size_t>(count));
  std::iota(samples.begin(), samples.end(), 0U);
  return samples;
}

/// What is read of a part: samples by their number in the whole.
struct PartSource {
  std::shared_ptr<const Dataset> dataset;     ///< or
  std::shared_ptr<const ImageSource> images;  ///< of any size
};

std::shared_ptr<const Dataset> make_part(const DataConfig& config, std::uint64_t seed,
                                         const DataDescription& description, const PartSource& source,
                                         std::vector<std::uint32_t> chosen, bool is_training) {
  if (prepares_images(config)) {
    ImagePreparation preparation;
    preparation.source = source.images ? source.images : images_of(source.dataset, config.ignored_target);
    preparation.chosen = std::move(chosen);
    const std::vector<TransformSpec>& transforms = is_training ? config.train_transforms : config.validation_transforms;
    preparation.transforms = TransformChain(transforms);
    preparation.seed = seed;
    preparation.sample = description.inputs.front().type;
    preparation.target = description.target;
    preparation.channels = config.channels;
    preparation.max_pixels = config.max_pixels;
    preparation.reduced_decoding = config.reduced_decoding;
    preparation.on_bad_sample = config.on_bad_sample;
    const auto num_taken = static_cast<std::int64_t>(preparation.chosen.size());
    const ImageSource& images = *preparation.source;
    preparation.memory =
        reader_memory({.images = images.facts(),
                       .masks = images.mask_facts(),
                       .has_masks = images.has_masks(),
                       .channels = source.images ? config.channels : source.dataset->input_types().front().shape[2],
                       .transforms = transforms,
                       .is_cached = config.cache != ImageCaching::none});
    preparation.kept =
        keep_images(config, {images.facts(), images.has_masks(), transforms, images.size(), num_taken}, images);
    return std::make_shared<ImageDataset>(std::move(preparation));
  }
  if (static_cast<std::int64_t>(chosen.size()) == source.dataset->size()) return source.dataset;
  return std::make_shared<SubsetDataset>(source.dataset, std::move(chosen));
}

/// A file may be replaced between a look at it and its loading.
void check_unchanged(const DatasetHeader& header, const DatasetContents& contents) {
  const std::int64_t num_validation = contents.validation ? contents.validation->size() : 0;
  const std::vector<TensorType> types = {header.sample};
  const auto has_types = [&](const Dataset& dataset) {
    return dataset.input_types() == types && dataset.target_type() == target_of(header);
  };
  const bool same_type = has_types(*contents.train) && (!contents.validation || has_types(*contents.validation));
  if (same_type && contents.train->size() == header.num_train && num_validation == header.num_validation) return;
  throw DataError(fmt::format("{}: the data was changed while it was read; start again", header.source));
}

DatasetContents load_contents(const DatasetFormat& format, const DataConfig& config, std::uint64_t seed,
                              const DatasetHeader& header, const DataDescription& description) {
  const HostOutOfMemory no_memory("the dataset", description.held_bytes, /*depends_on_batches=*/false);
  try {
    return format.load(config, seed, header);
  } catch (const std::bad_alloc&) {
    throw no_memory;
  } catch (const std::length_error&) {  // of a vector that no address space holds
    throw no_memory;
  }
}

}  // namespace

ConfigError data_config_error(const DataConfig& config, const std::string& message, const std::string& expectation) {
  if (!config.location.file.empty()) return located_error(config.location, message, expectation);
  return ConfigError(expectation.empty() ? message : fmt::format("{}; expected {}", message, expectation));
}

std::string data_path(const DataConfig& config, const std::string& path) {
  return (std::filesystem::path(config.root) / path).string();
}

Shape fixed_shape_of(DataType type) { return format_of(type).fixed_shape; }

std::vector<std::string> missing_data_files(const DataConfig& config) {
  std::vector<std::string> missing;
  for (std::string& file : format_of(config.type).required_files(config)) {
    if (!file_exists(file)) missing.push_back(std::move(file));
  }
  return missing;
}

std::string how_to_fetch(const DataConfig& config) {
  namespace fs = std::filesystem;
  fs::path folder = (fs::path(config.root) / "").parent_path();
  std::string name;
  if (config.type == DataType::cifar10) {
    name = "cifar10";
    if (folder.filename() == "cifar-10-batches-bin") folder = folder.parent_path();
  } else if (config.type == DataType::idx && config.train.empty()) {
    const std::string last = folder.filename().string();
    if (last.find("mnist") != std::string::npos) name = "mnist";
    if (last.find("fashion") != std::string::npos) name = "fashion-mnist";
  } else if (config.type == DataType::text && config.train == "input.txt" && folder.filename() == "shakespeare") {
    name = "shakespeare";
  }
  if (name.empty() && !config.train.empty()) return ", which data.train names";
  const std::string target = folder.empty() ? "." : folder.string();
  if (name.empty() || target.find('\'') != std::string::npos) return "";
  return fmt::format("; scripts/get_data.sh {} '{}' fetches it", name, target);
}

namespace {

class DirectReader final : public SampleReader {
 public:
  explicit DirectReader(const Dataset& dataset) : dataset_(dataset) {}
  void read(std::int64_t /*epoch*/, std::int64_t index, std::span<std::byte* const> fields) override {
    dataset_.read(index, fields);
  }
  void read_classes(std::int64_t /*epoch*/, std::int64_t index, std::int32_t* classes) override {
    dataset_.read_classes(index, classes);
  }

 private:
  const Dataset& dataset_;
};

std::string no_such_data(const DataConfig& config, const std::string& path) {
  const bool is_folder = config.type == DataType::image_folder || config.type == DataType::segmentation;
  return fmt::format("no {} '{}'", is_folder ? "folder" : "data file", path);
}

}  // namespace

std::unique_ptr<SampleReader> Dataset::make_reader() const { return std::make_unique<DirectReader>(*this); }

std::int32_t Dataset::class_of(std::int64_t index) const {
  require_internal(target_type_ == TensorType{DType::i32, Shape{}}, "a sample has one class");
  std::int32_t label = 0;
  read_classes(index, &label);
  return label;
}

DataDescription describe_data(const DataConfig& config, std::uint64_t /*seed*/) {
  const DatasetFormat format = format_of(config.type);
  check_keys(config, format);
  const std::vector<std::string> missing = missing_data_files(config);
  if (!missing.empty() || format.inspect_reads_everything) {
    if (const auto declared = declared_header(config, format)) return describe(config, format, *declared, 0);
  }
  if (!missing.empty()) {
    throw DataError(fmt::format(
        "{}{}; get the data, or declare {}data.classes, data.samples and "
        "data.validation_samples to describe it without files",
        no_such_data(config, missing.front()), how_to_fetch(config), holds_tokens(config) ? "" : "data.shape, "));
  }
  const DatasetHeader header = format.inspect(config);
  // What reading it all has left on the heap would be measured as the program's own.
  if (format.inspect_reads_everything) malloc_trim(0);
  return describe(config, format, header, num_set_aside(config, format, header));
}

/// Of all its targets, which are tokens, but those that do not count.
double mean_target_bytes(const Dataset& dataset, const std::vector<std::int64_t>& token_bytes, std::int32_t ignored) {
  std::vector<std::int32_t> targets(static_cast<std::size_t>(dataset.target_type().num_elements()));
  std::int64_t num_bytes = 0, num_targets = 0;
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    dataset.read_classes(i, targets.data());
    for (const std::int32_t target : targets) {
      if (target == ignored) continue;
      ++num_targets;
      if (static_cast<std::size_t>(target) < token_bytes.size())
        num_bytes += token_bytes[static_cast<std::size_t>(target)];
    }
  }
  return num_targets == 0 ? 0 : static_cast<double>(num_bytes) / static_cast<double>(num_targets);
}

LoadedData load_data(const DataConfig& config, std::uint64_t seed) {
  const DatasetFormat format = format_of(config.type);
  check_keys(config, format);
  const std::vector<std::string> missing = missing_data_files(config);
  if (!missing.empty()) throw DataError(no_such_data(config, missing.front()) + how_to_fetch(config));
  const DatasetHeader header = format.inspect(config);
  const std::int64_t num_aside = num_set_aside(config, format, header);
  LoadedData data;
  data.description = describe(config, format, header, num_aside);

  DatasetContents contents;
  if (format.load != nullptr) {
    contents = load_contents(format, config, seed, header, data.description);
    check_unchanged(header, contents);
  } else {
    contents.preprocessing = header.preprocessing;
  }
  data.remarks = header.remarks;
  data.preprocessing = std::move(contents.preprocessing);
  const InputDescription& input = data.description.inputs.front();
  if (!input.mean.empty()) {
    data.preprocessing.mean.assign(input.mean.begin(), input.mean.end());
    data.preprocessing.std.assign(input.std.begin(), input.std.end());
  }
  const std::int64_t num_train = data.description.num_train, num_validation = data.description.num_validation;
  const PartSource train{contents.train, header.train_images};
  const PartSource own_validation{contents.validation, header.validation_images};
  Split split;
  if (num_aside > 0)
    split = split_samples(header.num_train, num_aside, seed, num_train);
  else
    split.train = some_of(all_of(header.num_train), num_train, seed);
  if (header.num_validation > 0) split.validation = all_of(header.num_validation);
  data.train = make_part(config, seed, data.description, train, std::move(split.train), /*is_training=*/true);
  if (num_validation > 0) {
    data.validation = make_part(config, seed, data.description, header.num_validation > 0 ? own_validation : train,
                                some_of(std::move(split.validation), num_validation, seed), /*is_training=*/false);
    const bool counts_all = !config.mask_token;
    if (counts_all && !contents.token_bytes.empty())
      data.bytes_of_target = mean_target_bytes(*data.validation, contents.token_bytes, config.ignored_target);
  }
  return data;
}

int num_workers(const DataConfig& config) {
  if (config.workers > 0) return static_cast<int>(config.workers);
  constexpr int most = 16;
  return prepares_images(config) ? std::clamp(usable_threads() - 1, 1, most) : 1;
}

}  // namespace trainer
