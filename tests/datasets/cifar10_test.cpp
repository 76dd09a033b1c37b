#include "tests/datasets/data_files.h"

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

/// A record whose planes are 1, 2, 3, but for the first pixels of red and the last of blue.
std::string record(int label) {
  std::string bytes(1, static_cast<char>(label));
  bytes += std::string(1024, 1) + std::string(1024, 2) + std::string(1024, 3);
  bytes[1] = 11;
  bytes[2] = 12;
  bytes[3072] = 33;
  return bytes;
}

DataConfig write_files(const DataFolder& folder) {
  for (int i = 1; i <= 5; ++i) folder.write("data_batch_" + std::to_string(i) + ".bin", record(i) + record(9));
  DataConfig config;
  config.type = DataType::cifar10;
  config.root = folder.path();
  return config;
}

}  // namespace

TEST_CASE("CIFAR-10 records become images with the channels last") {
  const DataFolder folder;
  const DataConfig config = write_files(folder);
  folder.write("test_batch.bin", record(7));
  const LoadedData data = load_data(config, 1);
  REQUIRE(data.train->size() == 10);
  CHECK(data.description.inputs.front().type == TensorType{DType::u8, Shape{32, 32, 3}});
  const std::vector<int> pixels = pixels_of(*data.train, 4);
  CHECK(std::vector<int>(pixels.begin(), pixels.begin() + 7) == std::vector<int>{11, 2, 3, 12, 2, 3, 1});
  CHECK(pixels.back() == 33);
  CHECK(data.train->class_of(4) == 3);
  CHECK(data.train->class_of(5) == 9);
  REQUIRE(data.validation != nullptr);
  CHECK(data.validation->class_of(0) == 7);
}

TEST_CASE("CIFAR-10 files that do not fit are named with the offset") {
  const DataFolder folder;
  DataConfig config = write_files(folder);
  folder.write("data_batch_3.bin", record(1) + record(2).substr(0, 100));
  CHECK_THAT(load_error(config),
             Contains("data_batch_3.bin: 3173 bytes: ends 100 bytes into the record at offset 3073"));
  folder.write("data_batch_3.bin", "");
  CHECK_THAT(load_error(config), Contains("data_batch_3.bin: 0 bytes"));
  folder.write("data_batch_3.bin", record(1) + record(10));
  CHECK_THAT(load_error(config), Contains("label 10 at offset 3073, expected 0 to 9"));
  std::filesystem::remove(folder.path("data_batch_3.bin"));
  CHECK_THAT(load_error(config), Contains("no data file '" + folder.path("data_batch_3.bin")));
}

TEST_CASE("CIFAR-10 is found in the folder its archive unpacks to") {
  const DataFolder folder;
  write_files(folder);
  const DataFolder outer;
  std::filesystem::rename(folder.path(), outer.path("cifar-10-batches-bin"));
  DataConfig config;
  config.type = DataType::cifar10;
  config.root = outer.path();
  CHECK(load_data(config, 1).train->size() == 10);
}

TEST_CASE("Missing CIFAR-10 names the command that fetches it to where it is looked for") {
  DataConfig config;
  config.type = DataType::cifar10;
  config.root = "data/cifar10/";
  const std::string command = "; scripts/get_data.sh cifar10 'data/cifar10' fetches it";
  CHECK_THAT(load_error(config), Contains(command));
  CHECK_THAT(error_of([&] { describe_data(config, 1); }), Contains(command));
}

TEST_CASE("CIFAR-10 without files needs only its counts to be described") {
  DataConfig config;
  config.type = DataType::cifar10;
  config.root = "nowhere";
  config.samples = 50000;
  config.validation_samples = 10000;
  const DataDescription description = describe_data(config, 1);
  CHECK(description.inputs.front().type == TensorType{DType::u8, Shape{32, 32, 3}});
  CHECK(description.num_outputs == 10);
  CHECK(description.num_train == 50000);
  CHECK(description.num_validation == 10000);
}
