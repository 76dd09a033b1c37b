#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <span>

#include "datasets/dataset_format.h"
#include "datasets/input_file.h"
#include "datasets/memory_dataset.h"

// The IDX format of the MNIST family (http://yann.lecun.com/exdb/mnist): two zero bytes, the element type (8: u8), the
// number of dimensions, each dimension as a big-endian 32-bit number, then the elements.

namespace trainer {
namespace {

namespace fs = std::filesystem;

/// The classes of one sample, or one for each of its pixels.
constexpr int least_label_rank = 1, most_label_rank = 3;

/// The images and labels of training or validation.
struct FilePair {
  std::string images, labels;
};

/// `stem`-images-idx3-ubyte and the like, as the family's distributions spell it; the first spelling where none exists.
std::string usual_file(const DataConfig& config, const std::string& stem, const std::string& kind) {
  for (const char* separator : {"-", "."}) {
    for (const char* suffix : {"", ".gz"}) {
      std::string path = data_path(config, stem + separator + kind + suffix);
      if (file_exists(path)) return path;
    }
  }
  return data_path(config, stem + "-" + kind);
}

/// Labels by their usual name: one a sample, or a mask of them.
std::string usual_labels(const DataConfig& config, const std::string& stem) {
  std::string path = usual_file(config, stem, "idx1-ubyte");
  if (file_exists(path)) return path;
  const std::string masks = usual_file(config, stem, "idx3-ubyte");
  return file_exists(masks) ? masks : path;
}

/// The label file beside a named image file: the same name with "labels-idx1" for "images-idx3", or "labels-idx3" where
/// that is there and the other is not.
std::string labels_beside(const DataConfig& config, const std::string& images, const char* key) {
  std::string name = fs::path(images).filename().string();
  const std::string from = "images";
  const std::size_t at = name.find(from);
  if (at == std::string::npos)
    throw data_config_error(config, fmt::format("data.{}_labels is missing: the labels of '{}'", key, images),
                            "the path of an IDX file of labels");
  name.replace(at, from.size(), "labels");
  const std::string masks = (fs::path(images).parent_path() / name).string();
  const std::size_t dims = name.find("idx3");
  if (dims != std::string::npos) name.replace(dims, 4, "idx1");
  std::string path = (fs::path(images).parent_path() / name).string();
  return !file_exists(data_path(config, path)) && file_exists(data_path(config, masks)) ? masks : path;
}

FilePair named_files(const DataConfig& config, const std::string& images, const std::string& labels, const char* key) {
  return {data_path(config, images), data_path(config, labels.empty() ? labels_beside(config, images, key) : labels)};
}

FilePair train_pair(const DataConfig& config) {
  if (!config.train.empty()) return named_files(config, config.train, config.train_labels, "train");
  return {usual_file(config, "train-images", "idx3-ubyte"), usual_labels(config, "train-labels")};
}

std::optional<FilePair> validation_pair(const DataConfig& config) {
  if (!config.validation.empty()) return named_files(config, config.validation, config.validation_labels, "validation");
  if (config.split > 0 || !config.train.empty()) return std::nullopt;
  FilePair files = {usual_file(config, "t10k-images", "idx3-ubyte"), usual_labels(config, "t10k-labels")};
  if (!file_exists(files.images) && !file_exists(files.labels)) return std::nullopt;
  return files;
}

std::vector<std::string> idx_files(const DataConfig& config) {
  if (config.root.empty() && config.train.empty())
    throw data_config_error(config, "data.root is missing", "the folder of the IDX files");
  const FilePair train = train_pair(config);
  std::vector<std::string> files = {train.images, train.labels};
  if (const auto validation = validation_pair(config)) {
    files.push_back(validation->images);
    files.push_back(validation->labels);
  }
  return files;
}

/// Reads and checks a header of `least_rank` to `most_rank` dimensions; the file then stands at the first element.
/// Nothing is allocated by what it claims.
Shape read_header(InputFile& file, int least_rank, int most_rank, const char* contents) {
  std::array<std::byte, 4> magic{};
  file.read_exactly(magic.data(), magic.size(), fmt::format("the magic number of an IDX file of {}", contents));
  const int rank = std::to_integer<int>(magic[3]);
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0} || magic[2] != std::byte{8} || rank < least_rank ||
      rank > most_rank) {
    const std::string most = most_rank > least_rank ? fmt::format(" to {:02x}", most_rank) : "";
    throw DataError(
        fmt::format("{}: magic number {:02x} {:02x} {:02x} {:02x} at offset 0, expected 00 00 08 {:02x}{} "
                    "(IDX, unsigned bytes, {})",
                    file.name(), std::to_integer<int>(magic[0]), std::to_integer<int>(magic[1]),
                    std::to_integer<int>(magic[2]), rank, least_rank, most, contents));
  }
  std::array<std::int64_t, 4> dims{};
  for (int axis = 0; axis < rank; ++axis) {
    std::array<std::byte, 4> word{};
    const std::uint64_t offset = file.offset();
    file.read_exactly(word.data(), word.size(), fmt::format("dimension {} of the IDX header", axis));
    std::int64_t dim = 0;
    for (const std::byte byte : word) dim = dim << 8 | std::to_integer<std::int64_t>(byte);
    if (dim == 0)
      throw DataError(
          fmt::format("{}: dimension {} is 0 at offset {}, expected at least 1", file.name(), axis, offset));
    dims[static_cast<std::size_t>(axis)] = dim;
  }
  const Shape shape(std::span<const std::int64_t>(dims.data(), static_cast<std::size_t>(rank)));
  // 2^128 in the worst case, so it is multiplied in floating point first.
  double product = 1;
  for (const std::int64_t dim : shape) product *= static_cast<double>(dim);
  const auto available = static_cast<double>(file.largest_size() - std::min(file.largest_size(), file.offset()));
  if (product > available)
    throw DataError(fmt::format("{}: {}{} bytes, expected {:.0f}: a header of {} and {} {}", file.name(),
                                file.compressed() ? "unpacks to at most " : "", file.largest_size(),
                                static_cast<double>(file.offset()) + product, file.offset(), shape.to_string(),
                                contents));
  if (!file.compressed() && product < available)
    throw DataError(fmt::format("{}: {} bytes, expected {}: a header of {} and {} {}", file.name(), file.largest_size(),
                                file.offset() + static_cast<std::uint64_t>(product), file.offset(), shape.to_string(),
                                contents));
  return shape;
}

Shape read_image_header(InputFile& file) { return read_header(file, 3, 4, "images"); }

/// (N, H, W) or (N, H, W, C) → (H, W, C).
Shape sample_shape(const Shape& images) { return Shape{images[1], images[2], images.rank() == 4 ? images[3] : 1}; }

/// Of a file.
struct Labels {
  std::vector<std::byte> values;
  Shape shape;              ///< (N), or (N, H, W) with one a pixel
  std::uint64_t begin = 0;  ///< of the values in the file

  Shape of_sample() const { return Shape(std::span(shape.begin() + 1, shape.end())); }
};

Shape read_label_header(InputFile& file) { return read_header(file, least_label_rank, most_label_rank, "labels"); }

Labels read_labels(const std::string& path) {
  InputFile file(path);
  Labels labels;
  labels.shape = read_label_header(file);
  labels.begin = file.offset();
  labels.values = file.read_vector(static_cast<std::uint64_t>(labels.shape.num_elements()), "labels");
  file.expect_end();
  return labels;
}

void check_labels(const DataConfig& config, const std::string& path, const Labels& labels, std::int64_t num_classes,
                  const std::string& why) {
  for (std::size_t i = 0; i < labels.values.size(); ++i) {
    const int label = std::to_integer<int>(labels.values[i]);
    if (label < num_classes || label == config.ignored_target) continue;
    const bool ignores_a_label = config.ignored_target >= num_classes;
    const bool may_be_ignored = !ignores_a_label && labels.shape.rank() > 1;
    throw DataError(fmt::format(
        "{}: label {} at offset {}, expected 0 to {}{} ({}{})", path, label, labels.begin + i, num_classes - 1,
        ignores_a_label ? fmt::format(" or {}, which is ignored", config.ignored_target) : "", why,
        may_be_ignored ? fmt::format("; loss.ignore_index={} leaves such pixels out", label) : ""));
  }
}

std::int64_t num_classes_of(const DataConfig& config, const std::string& path, const Labels& train) {
  if (config.classes > 0) return config.classes;
  std::int64_t largest = -1;
  for (const std::byte label : train.values) {
    const auto value = std::to_integer<std::int64_t>(label);
    if (value != config.ignored_target) largest = std::max(largest, value);
  }
  if (largest < 0)
    throw DataError(
        fmt::format("{}: all labels are {}, which loss.ignore_index leaves out", path, config.ignored_target));
  return largest + 1;
}

void check_counts(const FilePair& files, std::int64_t num_images, std::int64_t num_labels) {
  if (num_images != num_labels)
    throw DataError(
        fmt::format("{} holds {} images, but {} holds {} labels", files.images, num_images, files.labels, num_labels));
}

/// Of the samples of a pair whose headers agree.
struct PairShapes {
  std::int64_t num_samples = 0;
  Shape image, target;
};

PairShapes inspect_pair(const FilePair& files) {
  InputFile images(files.images);
  InputFile labels(files.labels);
  const Shape of_images = read_image_header(images), of_labels = read_label_header(labels);
  check_counts(files, of_images[0], of_labels[0]);
  return {of_images[0], sample_shape(of_images), Shape(std::span(of_labels.begin() + 1, of_labels.end()))};
}

void check_validation_shapes(const FilePair& train, const PairShapes& of_train, const FilePair& validation,
                             const PairShapes& of_validation) {
  if (of_train.image != of_validation.image)
    throw DataError(fmt::format("{} holds images of {}, but {} of {}", validation.images,
                                of_validation.image.to_string(), train.images, of_train.image.to_string()));
  if (of_train.target != of_validation.target)
    throw DataError(fmt::format("{} holds labels of {} a sample, but {} of {}", validation.labels,
                                of_validation.target.to_string(), train.labels, of_train.target.to_string()));
}

DatasetHeader inspect_idx(const DataConfig& config) {
  const FilePair train = train_pair(config);
  const PairShapes shapes = inspect_pair(train);
  DatasetHeader header;
  header.source = train.images;
  header.sample = {DType::u8, shapes.image};
  header.target_shape = shapes.target;
  header.num_train = shapes.num_samples;
  header.num_outputs =
      config.classes > 0 ? config.classes : num_classes_of(config, train.labels, read_labels(train.labels));
  if (const auto validation = validation_pair(config)) {
    const PairShapes of_validation = inspect_pair(*validation);
    check_validation_shapes(train, shapes, *validation, of_validation);
    header.num_validation = of_validation.num_samples;
  }
  return header;
}

std::shared_ptr<const Dataset> load_pair(const FilePair& files, const Labels& labels) {
  InputFile file(files.images);
  const Shape shape = read_image_header(file);
  check_counts(files, shape[0], labels.shape[0]);
  std::vector<std::byte> pixels =
      file.read_vector(static_cast<std::uint64_t>(shape.num_elements()), fmt::format("{} images", shape.to_string()));
  file.expect_end();
  return std::make_shared<MemoryDataset>(TensorType{DType::u8, sample_shape(shape)},
                                         TensorType{DType::i32, labels.of_sample()}, std::move(pixels),
                                         targets_of_labels(labels.values));
}

DatasetContents load_idx(const DataConfig& config, std::uint64_t /*seed*/, const DatasetHeader& /*header*/) {
  const FilePair train = train_pair(config);
  const Labels labels = read_labels(train.labels);
  const std::int64_t num_classes = num_classes_of(config, train.labels, labels);
  const std::string why = config.classes > 0 ? fmt::format("data.classes is {}", num_classes)
                                             : fmt::format("{} has {} classes", train.labels, num_classes);
  check_labels(config, train.labels, labels, num_classes, why);
  DatasetContents contents;
  contents.train = load_pair(train, labels);
  if (const auto validation = validation_pair(config)) {
    const Labels validation_labels = read_labels(validation->labels);
    check_labels(config, validation->labels, validation_labels, num_classes, why);
    contents.validation = load_pair(*validation, validation_labels);
  }
  return contents;
}

}  // namespace

DatasetFormat idx_format() {
  DatasetFormat format;
  format.required_files = idx_files;
  format.inspect = inspect_idx;
  format.load = load_idx;
  return format;
}

}  // namespace trainer
