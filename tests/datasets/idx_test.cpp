#include <array>
#include <filesystem>

#include "tests/datasets/data_files.h"

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

/// Three images of 2×2 and their labels.
std::string images_bytes() {
  return bytes_of({0, 0, 8, 3, 0, 0, 0, 3, 0,   0,   0,   2,  0, 0, 0, 2,  //
                   1, 2, 3, 4, 5, 6, 7, 8, 250, 251, 252, 253});
}
std::string labels_bytes() { return bytes_of({0, 0, 8, 1, 0, 0, 0, 3, 2, 0, 1}); }

DataConfig idx_config(const DataFolder& folder) {
  DataConfig config;
  config.type = DataType::idx;
  config.root = folder.path();
  return config;
}

DataConfig whole_files(const DataFolder& folder) {
  folder.write("train-images-idx3-ubyte", images_bytes());
  folder.write("train-labels-idx1-ubyte", labels_bytes());
  return idx_config(folder);
}

}  // namespace

TEST_CASE("IDX files are read byte for byte") {
  const DataFolder folder;
  const LoadedData data = load_data(whole_files(folder), 1);
  REQUIRE(data.train->size() == 3);
  CHECK(data.train->input_types().front() == TensorType{DType::u8, Shape{2, 2, 1}});
  CHECK(data.train->target_type() == TensorType{DType::i32, Shape{}});
  CHECK(pixels_of(*data.train, 0) == std::vector<int>{1, 2, 3, 4});
  CHECK(pixels_of(*data.train, 2) == std::vector<int>{250, 251, 252, 253});
  CHECK(data.train->class_of(0) == 2);
  CHECK(data.train->class_of(1) == 0);
  CHECK(data.train->class_of(2) == 1);
  CHECK(data.validation == nullptr);
  CHECK(data.description.num_outputs == 3);
  CHECK(data.description.num_validation == 0);
  CHECK(data.description.inputs.front().mean == std::vector<float>{0});
  CHECK(data.description.inputs.front().std == std::vector<float>{1});
}

TEST_CASE("Gzipped IDX files are read like plain ones, whatever they are called") {
  const DataFolder folder;
  folder.write("train-images-idx3-ubyte.gz", gzipped(images_bytes()));
  folder.write("train-labels-idx1-ubyte", gzipped(labels_bytes()));
  folder.write("t10k-images.idx3-ubyte", images_bytes());
  folder.write("t10k-labels.idx1-ubyte", labels_bytes());
  const LoadedData data = load_data(idx_config(folder), 1);
  CHECK(pixels_of(*data.train, 2) == std::vector<int>{250, 251, 252, 253});
  CHECK(data.train->class_of(0) == 2);
  REQUIRE(data.validation != nullptr);
  CHECK(pixels_of(*data.validation, 1) == std::vector<int>{5, 6, 7, 8});
  CHECK(data.description.num_validation == 3);
}

TEST_CASE("A gzip file of several members is one stream") {
  const DataFolder folder;
  whole_files(folder);
  const std::string images = images_bytes();
  folder.write("train-images-idx3-ubyte", gzipped(images.substr(0, 18)) + gzipped(images.substr(18)));
  CHECK(pixels_of(*load_data(idx_config(folder), 1).train, 0) == std::vector<int>{1, 2, 3, 4});
}

TEST_CASE("IDX files of four dimensions are images with channels") {
  const DataFolder folder;
  whole_files(folder);
  folder.write("train-images-idx3-ubyte", bytes_of({0, 0, 8, 4, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2,  //
                                                    1, 2, 3, 4, 5, 6}));
  const LoadedData data = load_data(idx_config(folder), 1);
  CHECK(data.description.inputs.front().type == TensorType{DType::u8, Shape{1, 1, 2}});
  CHECK(pixels_of(*data.train, 1) == std::vector<int>{3, 4});
  CHECK(data.description.inputs.front().mean.size() == 2);
}

TEST_CASE("IDX files with other names are named, and their labels found beside them") {
  const DataFolder folder;
  folder.write("emnist-images-idx3", images_bytes());
  folder.write("emnist-labels-idx1", labels_bytes());
  folder.write("pictures", images_bytes());
  DataConfig config = idx_config(folder);
  config.train = "emnist-images-idx3";
  CHECK(load_data(config, 1).train->class_of(0) == 2);

  config.train = folder.path("pictures");
  CHECK_THAT(error_of<ConfigError>([&] { load_data(config, 1); }), Contains("data.train_labels is missing"));
  config.train_labels = "emnist-labels-idx1";
  CHECK(load_data(config, 1).train->class_of(0) == 2);
}

TEST_CASE("A truncated IDX file is named with the offset and what was expected") {
  const DataFolder folder;
  DataConfig config = whole_files(folder);
  const std::string images = images_bytes();
  const std::string path = folder.path("train-images-idx3-ubyte");
  const auto error_at = [&](std::size_t length) {
    folder.write("train-images-idx3-ubyte", images.substr(0, length));
    const std::string message = load_error(config);
    CHECK_THAT(message, Contains(path));
    // The description, which reads no pixels, finds the same.
    CHECK(error_of([&] { describe_data(config, 1); }) == message);
    return message;
  };
  CHECK_THAT(error_at(0), Contains("ends at offset 0, expected 4 bytes from offset 0: the magic number"));
  CHECK_THAT(error_at(3), Contains("ends at offset 3, expected 4 bytes from offset 0: the magic number"));
  CHECK_THAT(error_at(7), Contains("ends at offset 7, expected 4 bytes from offset 4: dimension 0"));
  CHECK_THAT(error_at(15), Contains("ends at offset 15, expected 4 bytes from offset 12: dimension 2"));
  CHECK_THAT(error_at(16), Contains(": 16 bytes, expected 28: a header of 16 and 3×2×2 images"));
  CHECK_THAT(error_at(27), Contains(": 27 bytes, expected 28: a header of 16 and 3×2×2 images"));
  folder.write("train-images-idx3-ubyte", images + "x");
  CHECK_THAT(load_error(config), Contains("29 bytes, expected 28: a header of 16 and 3×2×2 images"));
}

TEST_CASE("A gzip stream cut at any byte is an error that names the file") {
  const DataFolder folder;
  const DataConfig config = whole_files(folder);
  const std::string packed = gzipped(images_bytes());
  for (std::size_t length = 2; length < packed.size(); ++length) {
    folder.write("train-images-idx3-ubyte", packed.substr(0, length));
    const std::string message = load_error(config);
    INFO(length);
    CHECK_THAT(message, Contains(folder.path("train-images-idx3-ubyte")));
    CHECK_THAT(message, Contains("cut off at byte " + std::to_string(length)) || Contains("unpacks to at most"));
  }
}

TEST_CASE("A damaged gzip stream is an error that names the file and the offset") {
  const DataFolder folder;
  const DataConfig config = whole_files(folder);
  std::string packed = gzipped(images_bytes());
  packed[packed.size() - 8] = static_cast<char>(packed[packed.size() - 8] ^ 1);  // the checksum
  folder.write("train-images-idx3-ubyte", packed);
  CHECK_THAT(load_error(config), Contains("train-images-idx3-ubyte: the gzip stream is damaged at byte") &&
                                     Contains("after 28 unpacked bytes"));
  folder.write("train-images-idx3-ubyte", gzipped(images_bytes()) + "rest");
  CHECK_THAT(load_error(config), Contains("unexpected bytes after the gzip stream"));
  folder.write("train-images-idx3-ubyte", gzipped(images_bytes() + "x"));
  CHECK_THAT(load_error(config), Contains("goes on at offset 28, expected the end of the file"));
  folder.write("train-images-idx3-ubyte", gzipped(images_bytes().substr(0, 25)));
  CHECK_THAT(load_error(config),
             Contains("ends at offset 25 (unpacked), expected 12 bytes from offset 16: 3×2×2 images"));
}

TEST_CASE("A file that is not IDX is told by its magic number") {
  const DataFolder folder;
  const DataConfig config = whole_files(folder);
  folder.write("train-images-idx3-ubyte", "\x89PNG....");
  CHECK_THAT(load_error(config), Contains("magic number 89 50 4e 47 at offset 0, expected 00 00 08 03 to 04"));
  folder.write("train-images-idx3-ubyte", labels_bytes());
  CHECK_THAT(load_error(config), Contains("magic number 00 00 08 01"));
  folder.write("train-images-idx3-ubyte", bytes_of({0, 0, 13, 3, 0, 0, 0, 1}));
  CHECK_THAT(load_error(config), Contains("magic number 00 00 0d 03"));
  folder.write("train-images-idx3-ubyte", bytes_of({0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 2}));
  CHECK_THAT(load_error(config), Contains("dimension 1 is 0 at offset 8"));
}

TEST_CASE("IDX labels of three dimensions are a class for each pixel, one of which may be ignored") {
  const DataFolder folder;
  DataConfig config = whole_files(folder);
  std::filesystem::remove(folder.path("train-labels-idx1-ubyte"));
  const std::string masks = bytes_of({0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 1, 255, 2, 1, 0});
  folder.write("train-labels-idx3-ubyte", masks);
  CHECK_THAT(load_error(config), !Contains("label"));
  CHECK(describe_data(config, 1).num_outputs == 256);
  config.ignored_target = 255;
  const LoadedData data = load_data(config, 1);
  CHECK(data.description.target == TensorType{DType::i32, Shape{1, 2}});
  CHECK(data.description.num_outputs == 3);
  CHECK(describe_data(config, 1) == data.description);
  std::array<std::int32_t, 2> classes{};
  data.train->read_classes(1, classes.data());
  CHECK(classes == std::array<std::int32_t, 2>{255, 2});

  // Beside a named image file, and declared.
  config.root.clear();
  config.train = folder.path("train-images-idx3-ubyte");
  CHECK(load_data(config, 1).description.target.shape == Shape{1, 2});
  config.target_shape = {2, 2};
  CHECK_THAT(load_error(config), Contains("data.target_shape declares 2×2, but the data has 1×2"));
  config.target_shape = {1, 2};
  CHECK(load_data(config, 1).train->size() == 3);

  config.classes = 2;
  CHECK_THAT(load_error(config),
             Contains("label 2 at offset 19, expected 0 to 1 or 255, which is ignored (data.classes is 2)"));
  config.classes = 0;
  config.ignored_target = 1;
  CHECK(load_data(config, 1).description.num_outputs == 256);
  folder.write("train-labels-idx3-ubyte", bytes_of({0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 2, 1, 1, 1, 1, 1, 1}));
  CHECK_THAT(load_error(config), Contains("all labels are 1, which loss.ignore_index leaves out"));
  folder.write("train-labels-idx3-ubyte", masks);
  config.ignored_target = 255;
  config.train.clear();
  config.root = folder.path();
  folder.write("t10k-images-idx3-ubyte", images_bytes());
  folder.write("t10k-labels-idx1-ubyte", labels_bytes());
  CHECK_THAT(load_error(config), Contains("holds labels of scalar a sample, but ") && Contains("of 1×2"));
}

TEST_CASE("Masks that are declared need no files") {
  DataConfig config;
  config.type = DataType::idx;
  config.root = "/nowhere";
  config.shape = {4, 6, 1};
  config.target_shape = {4, 6};
  config.classes = 3;
  config.samples = 10;
  CHECK(describe_data(config, 1).target == TensorType{DType::i32, Shape{4, 6}});
}

TEST_CASE("A header that claims more than the file can hold allocates nothing") {
  const DataFolder folder;
  const DataConfig config = whole_files(folder);
  const std::string hostile = bytes_of({0,   0,   8,   4,   255, 255, 255, 255, 255, 255, 255, 255,  //
                                        255, 255, 255, 255, 255, 255, 255, 255, 1,   2,   3});
  folder.write("train-images-idx3-ubyte", hostile);
  CHECK_THAT(load_error(config), Contains(": 23 bytes, expected 340282366"));
  CHECK_THAT(load_error(config), Contains("a header of 20 and 4294967295×4294967295×4294967295×4294967295 images"));
  folder.write("train-images-idx3-ubyte", gzipped(hostile));
  CHECK_THAT(load_error(config), Contains("unpacks to at most"));
}

TEST_CASE("Images and labels that do not belong together are refused") {
  const DataFolder folder;
  DataConfig config = whole_files(folder);
  folder.write("train-labels-idx1-ubyte", bytes_of({0, 0, 8, 1, 0, 0, 0, 2, 2, 0}));
  CHECK_THAT(load_error(config), Contains("holds 3 images, but ") && Contains("holds 2 labels"));
  folder.write("train-labels-idx1-ubyte", labels_bytes());

  config.classes = 2;
  CHECK_THAT(load_error(config), Contains("label 2 at offset 8, expected 0 to 1 (data.classes is 2)"));
  config.classes = 10;
  CHECK(load_data(config, 1).description.num_outputs == 10);
  config.classes = 0;

  folder.write("t10k-images-idx3-ubyte", images_bytes());
  CHECK_THAT(load_error(config), Contains("no data file '" + folder.path("t10k-labels-idx1-ubyte")));
  folder.write("t10k-labels-idx1-ubyte", bytes_of({0, 0, 8, 1, 0, 0, 0, 3, 2, 0, 3}));
  CHECK_THAT(load_error(config), Contains("t10k-labels-idx1-ubyte: label 3 at offset 10, expected 0 to 2"));
  folder.write("t10k-labels-idx1-ubyte", labels_bytes());
  folder.write("t10k-images-idx3-ubyte", bytes_of({0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 1, 1, 2, 3}));
  CHECK_THAT(load_error(config), Contains("holds images of 1×1×1, but ") && Contains("of 2×2×1"));
}

TEST_CASE("A missing file is named, with what to declare to plan without it") {
  const DataFolder folder;
  DataConfig config = idx_config(folder);
  CHECK_THAT(load_error(config), Contains("no data file '" + folder.path("train-images-idx3-ubyte") + "'"));
  CHECK_THAT(error_of([&] { describe_data(config, 1); }), Contains("declare data.shape"));
  CHECK(missing_data_files(config) ==
        std::vector<std::string>{folder.path("train-images-idx3-ubyte"), folder.path("train-labels-idx1-ubyte")});
  std::filesystem::create_directory(folder.path("train-images-idx3-ubyte"));
  folder.write("train-labels-idx1-ubyte", labels_bytes());
  CHECK_THAT(load_error(config), Contains("is not a file"));
  config.root.clear();
  CHECK_THAT(error_of<ConfigError>([&] { describe_data(config, 1); }), Contains("data.root is missing"));
}

TEST_CASE("Missing files of MNIST and Fashion-MNIST name the command that fetches them, other IDX files none") {
  const auto error = [](const std::string& root) {
    DataConfig config;
    config.type = DataType::idx;
    config.root = root;
    return load_error(config);
  };
  CHECK_THAT(error("nowhere/mnist"), Contains("; scripts/get_data.sh mnist 'nowhere/mnist' fetches it"));
  CHECK_THAT(error("nowhere/fashion-mnist/"),
             Contains("; scripts/get_data.sh fashion-mnist 'nowhere/fashion-mnist' fetches it"));
  CHECK_THAT(error("nowhere/letters"), Contains("no data file") && !Contains("get_data"));
  CHECK_THAT(error("it's/mnist"), Contains("no data file") && !Contains("get_data"));  // no word of a shell as it is
}
