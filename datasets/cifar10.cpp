#include <fmt/format.h>

#include <filesystem>

#include "datasets/dataset_format.h"
#include "datasets/input_file.h"
#include "datasets/memory_dataset.h"

// The binary version of CIFAR-10 (https://www.cs.toronto.edu/~kriz/cifar.html): records of a label and 3072 pixels, the
// red plane first, each plane row by row.

namespace trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t side = 32;
constexpr std::int64_t cifar10_channels = 3;
constexpr std::int64_t plane_bytes = side * side;
constexpr std::int64_t image_bytes = cifar10_channels * plane_bytes;
constexpr std::int64_t record_bytes = 1 + image_bytes;
constexpr int cifar10_classes = 10;
constexpr int num_train_files = 5;

/// `data.root` itself or the folder that the archive unpacks to below it.
fs::path folder(const DataConfig& config) {
  if (config.root.empty()) throw data_config_error(config, "data.root is missing", "the folder of data_batch_1.bin");
  const fs::path unpacked = fs::path(config.root) / "cifar-10-batches-bin";
  return file_exists(unpacked.string()) ? unpacked : fs::path(config.root);
}

std::vector<std::string> cifar10_train_files(const DataConfig& config) {
  std::vector<std::string> files;
  for (int i = 1; i <= num_train_files; ++i)
    files.push_back((folder(config) / fmt::format("data_batch_{}.bin", i)).string());
  return files;
}

/// Empty: no validation files.
std::vector<std::string> cifar10_validation_files(const DataConfig& config) {
  std::string file = (folder(config) / "test_batch.bin").string();
  if (config.split > 0 || !file_exists(file)) return {};
  return {std::move(file)};
}

std::int64_t num_records(const InputFile& file) {
  const auto size = static_cast<std::int64_t>(file.largest_size());
  if (file.compressed()) throw DataError(fmt::format("{}: is packed with gzip; unpack it first (gunzip)", file.name()));
  if (size == 0 || size % record_bytes != 0)
    throw DataError(
        fmt::format("{}: {} bytes: ends {} bytes into the record at offset {}, expected records of {} "
                    "bytes (a label and 32×32×3 pixels)",
                    file.name(), size, size % record_bytes, size - size % record_bytes, record_bytes));
  return size / record_bytes;
}

std::int64_t num_records(const std::vector<std::string>& files) {
  std::int64_t num = 0;
  for (const std::string& file : files) num += num_records(InputFile(file));
  return num;
}

DatasetHeader inspect_cifar10(const DataConfig& config) {
  return {folder(config).string(),
          {DType::u8, Shape{side, side, cifar10_channels}},
          true,
          cifar10_classes,
          num_records(cifar10_train_files(config)),
          num_records(cifar10_validation_files(config))};
}

void append_records(const std::string& path, std::vector<std::byte>& pixels, std::vector<std::byte>& labels) {
  InputFile file(path);
  const std::int64_t count = num_records(file);
  std::vector<std::byte> record(record_bytes);
  std::size_t out = pixels.size();
  pixels.resize(out + static_cast<std::size_t>(count * image_bytes));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t offset = file.offset();
    file.read_exactly(record.data(), record.size(), "a record of CIFAR-10");
    if (std::to_integer<int>(record[0]) >= cifar10_classes)
      throw DataError(fmt::format("{}: label {} at offset {}, expected 0 to {}", path, std::to_integer<int>(record[0]),
                                  offset, cifar10_classes - 1));
    labels.push_back(record[0]);
    for (std::size_t pixel = 0; pixel < plane_bytes; ++pixel)
      for (std::size_t channel = 0; channel < cifar10_channels; ++channel)
        pixels[out++] = record[1 + channel * plane_bytes + pixel];
  }
}

std::shared_ptr<const Dataset> load_files(const std::vector<std::string>& files) {
  std::vector<std::byte> pixels;
  std::vector<std::byte> labels;
  pixels.reserve(static_cast<std::size_t>(num_records(files) * image_bytes));
  for (const std::string& file : files) append_records(file, pixels, labels);
  return std::make_shared<MemoryDataset>(TensorType{DType::u8, Shape{side, side, cifar10_channels}},
                                         TensorType{DType::i32, Shape{}}, std::move(pixels), targets_of_labels(labels));
}

DatasetContents load_cifar10(const DataConfig& config, std::uint64_t /*seed*/, const DatasetHeader& /*header*/) {
  DatasetContents contents;
  contents.train = load_files(cifar10_train_files(config));
  const std::vector<std::string> validation = cifar10_validation_files(config);
  if (!validation.empty()) contents.validation = load_files(validation);
  contents.preprocessing.classes = {"airplane", "automobile", "bird",  "cat",  "deer",
                                    "dog",      "frog",       "horse", "ship", "truck"};
  return contents;
}

}  // namespace

DatasetFormat cifar10_format() {
  DatasetFormat format;
  format.fixed_shape = Shape{side, side, cifar10_channels};
  format.fixed_classes = cifar10_classes;
  format.required_files = cifar10_train_files;
  format.inspect = inspect_cifar10;
  format.load = load_cifar10;
  return format;
}

}  // namespace trainer
