#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

#include "datasets/dataset_format.h"
#include "datasets/input_file.h"
#include "datasets/memory_dataset.h"

// The IDX format of the MNIST family (http://yann.lecun.com/exdb/mnist): two zero bytes, the element type (8: u8), the
// number of dimensions, each dimension as a big-endian 32-bit number, then the elements.

namespace trainer {
namespace {

namespace fs = std::filesystem;

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

/// The label file beside a named image file: the same name with "labels-idx1" for "images-idx3".
std::string labels_beside(const DataConfig& config, const std::string& images, const char* key) {
  std::string name = fs::path(images).filename().string();
  const std::string from = "images";
  const std::size_t at = name.find(from);
  if (at == std::string::npos)
    throw data_config_error(config, fmt::format("data.{}_labels is missing: the labels of '{}'", key, images),
                            "the path of an IDX file of labels");
  name.replace(at, from.size(), "labels");
  const std::size_t dims = name.find("idx3");
  if (dims != std::string::npos) name.replace(dims, 4, "idx1");
  return (fs::path(images).parent_path() / name).string();
}

FilePair named_files(const DataConfig& config, const std::string& images, const std::string& labels, const char* key) {
  return {data_path(config, images), data_path(config, labels.empty() ? labels_beside(config, images, key) : labels)};
}

FilePair train_pair(const DataConfig& config) {
  if (!config.train.empty()) return named_files(config, config.train, config.train_labels, "train");
  return {usual_file(config, "train-images", "idx3-ubyte"), usual_file(config, "train-labels", "idx1-ubyte")};
}

std::optional<FilePair> validation_pair(const DataConfig& config) {
  if (!config.validation.empty()) return named_files(config, config.validation, config.validation_labels, "validation");
  if (config.split > 0 || !config.train.empty()) return std::nullopt;
  FilePair files = {usual_file(config, "t10k-images", "idx3-ubyte"), usual_file(config, "t10k-labels", "idx1-ubyte")};
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

std::vector<std::byte> read_labels(const std::string& path) {
  InputFile file(path);
  const Shape shape = read_header(file, 1, 1, "labels");
  std::vector<std::byte> labels = file.read_vector(static_cast<std::uint64_t>(shape[0]), "labels");
  file.expect_end();
  return labels;
}

void check_labels(const std::string& path, const std::vector<std::byte>& labels, std::int64_t num_classes,
                  const std::string& why) {
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const int label = std::to_integer<int>(labels[i]);
    if (label >= num_classes)
      throw DataError(
          fmt::format("{}: label {} at offset {}, expected 0 to {} ({})", path, label, 8 + i, num_classes - 1, why));
  }
}

std::int64_t num_classes_of(const DataConfig& config, const std::vector<std::byte>& train_labels) {
  if (config.classes > 0) return config.classes;
  return std::to_integer<std::int64_t>(*std::max_element(train_labels.begin(), train_labels.end())) + 1;
}

void check_counts(const FilePair& files, std::int64_t num_images, std::int64_t num_labels) {
  if (num_images != num_labels)
    throw DataError(
        fmt::format("{} holds {} images, but {} holds {} labels", files.images, num_images, files.labels, num_labels));
}

/// Shape of the images of a pair whose headers agree.
Shape inspect_pair(const FilePair& files) {
  InputFile images(files.images);
  InputFile labels(files.labels);
  const Shape shape = read_image_header(images);
  check_counts(files, shape[0], read_header(labels, 1, 1, "labels")[0]);
  return shape;
}

void check_validation_shape(const FilePair& train, const Shape& train_shape, const FilePair& validation,
                            const Shape& validation_shape) {
  if (sample_shape(train_shape) != sample_shape(validation_shape))
    throw DataError(fmt::format("{} holds images of {}, but {} of {}", validation.images,
                                sample_shape(validation_shape).to_string(), train.images,
                                sample_shape(train_shape).to_string()));
}

DatasetHeader inspect_idx(const DataConfig& config) {
  const FilePair train = train_pair(config);
  const Shape images = inspect_pair(train);
  DatasetHeader header;
  header.source = train.images;
  header.sample = {DType::u8, sample_shape(images)};
  header.num_train = images[0];
  header.num_outputs = config.classes > 0 ? config.classes : num_classes_of(config, read_labels(train.labels));
  if (const auto validation = validation_pair(config)) {
    const Shape validation_images = inspect_pair(*validation);
    check_validation_shape(train, images, *validation, validation_images);
    header.num_validation = validation_images[0];
  }
  return header;
}

std::shared_ptr<const Dataset> load_pair(const FilePair& files, const std::vector<std::byte>& labels) {
  InputFile file(files.images);
  const Shape shape = read_image_header(file);
  check_counts(files, shape[0], static_cast<std::int64_t>(labels.size()));
  std::vector<std::byte> pixels =
      file.read_vector(static_cast<std::uint64_t>(shape.num_elements()), fmt::format("{} images", shape.to_string()));
  file.expect_end();
  return std::make_shared<MemoryDataset>(TensorType{DType::u8, sample_shape(shape)}, TensorType{DType::i32, Shape{}},
                                         std::move(pixels), targets_of_labels(labels));
}

DatasetContents load_idx(const DataConfig& config, std::uint64_t /*seed*/) {
  const FilePair train = train_pair(config);
  const std::vector<std::byte> labels = read_labels(train.labels);
  const std::int64_t num_classes = num_classes_of(config, labels);
  const std::string why = config.classes > 0 ? fmt::format("data.classes is {}", num_classes)
                                             : fmt::format("{} has {} classes", train.labels, num_classes);
  check_labels(train.labels, labels, num_classes, why);
  DatasetContents contents;
  contents.train = load_pair(train, labels);
  if (const auto validation = validation_pair(config)) {
    const std::vector<std::byte> validation_labels = read_labels(validation->labels);
    check_labels(validation->labels, validation_labels, num_classes, why);
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
