#include <array>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "datasets/memory_dataset.h"
#include "engine/report/data/written_samples.h"
#include "tests/datasets/array_files.h"

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

DataConfig digits_config() {
  DataConfig config;
  config.type = DataType::digits;
  return config;
}

/// Two arrays of a .npz as the reader of arrays finds them.
std::shared_ptr<const Dataset> arrays_of(const std::string& path, const std::string& input, const std::string& target) {
  DataConfig config;
  config.type = DataType::arrays;
  config.train = path;
  config.train_input = input;
  config.train_target = target;
  return load_data(config, 1).train;
}

std::string bytes_in_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::vector<std::string> names_in(const DataFolder& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) names.push_back(entry.path().filename());
  return names;
}

/// Its samples are bytes that count on; one of them cannot be read.
class CountedSamples final : public Dataset {
 public:
  CountedSamples(std::int64_t size, std::int64_t sample_bytes, std::int64_t bad = -1)
      : Dataset({TensorType{DType::u8, Shape{sample_bytes}}}, {DType::f32, Shape{2}}), size_(size), bad_(bad) {}

  std::int64_t size() const override { return size_; }
  void read(std::int64_t index, std::span<std::byte* const> fields) const override {
    if (index == bad_) throw DataError("sample is bad");
    const std::int64_t count = input_types().front().num_bytes();
    for (std::int64_t i = 0; i < count; ++i) fields[0][i] = static_cast<std::byte>((index * 31 + i) % 251);
    const std::array<float, 2> target{static_cast<float>(index), 0.5F};
    std::memcpy(fields[1], target.data(), sizeof(target));
  }
  void read_classes(std::int64_t /*index*/, std::int32_t* /*classes*/) const override {}

 private:
  std::int64_t size_, bad_;
};

}  // namespace

TEST_CASE("prepared samples are written as arrays that are read again") {
  const DataFolder folder;
  const LoadedData data = load_data(digits_config(), 3);
  const std::string path = folder.path("digits.npz");
  const std::vector<NamedArray> arrays = write_samples(*data.train, 25, 0, path);
  REQUIRE(arrays.size() == 3);
  CHECK(arrays[0].type == TensorType{DType::u8, Shape{25, 8, 8, 1}});
  CHECK(arrays[1].type == TensorType{DType::i32, Shape{25}});
  CHECK(arrays[2].type == TensorType{DType::i64, Shape{25}});
  CHECK(names_in(folder) == std::vector<std::string>{"digits.npz"});

  const auto samples = arrays_of(path, "samples", "targets"), numbers = arrays_of(path, "index", "targets");
  REQUIRE(samples->size() == 25);
  CHECK(samples->input_types().front() == TensorType{DType::u8, Shape{8, 8, 1}});
  std::int64_t before = -1;
  for (std::int64_t i = 0; i < 25; ++i) {
    CHECK(pixels_of(*samples, i) == pixels_of(*data.train, i));
    CHECK(samples->class_of(i) == data.train->class_of(i));
    CHECK(floats_of(*numbers, i) == std::vector<float>{static_cast<float>(data.train->number_of(i))});
    CHECK(data.train->number_of(i) > before);
    before = data.train->number_of(i);
  }
  // Some are set aside: the numbers are those of the whole.
  CHECK(data.train->number_of(1436) > 1436);
}

TEST_CASE("each member has its checksum and begins as numpy.lib.format wants it") {
  const DataFolder folder;
  const std::string path = folder.path("a.npz");
  write_samples(CountedSamples(3, 5), 3, 0, path);
  const std::string bytes = bytes_in_file(path);
  REQUIRE(bytes.substr(0, 4) == "PK\x03\x04");
  const std::size_t begin = 30 + std::string("samples.npy").size() + 20;
  const std::string header =
      "\x93NUMPY" + bytes_of({1, 0, 118, 0}) + "{'descr': '|u1', 'fortran_order': False, 'shape': (3,5,), }";
  CHECK(bytes.substr(begin, header.size()) == header);
  const std::string member = bytes.substr(begin, 128 + 15);
  CHECK(member[127] == '\n');
  CHECK(bytes.substr(14, 4) ==
        little_endian(crc32_z(0, reinterpret_cast<const Bytef*>(member.data()), member.size()), 4));
  CHECK(bytes.substr(begin + member.size(), 4) == "PK\x03\x04");
}

TEST_CASE("more samples than are read at once are written in their order") {
  const DataFolder folder;
  constexpr std::int64_t sample_bytes = (std::int64_t{5} << 20) + 1, count = 8;
  const CountedSamples dataset(count, sample_bytes);
  write_samples(dataset, count, 0, folder.path("a.npz"));
  const std::string bytes = bytes_in_file(folder.path("a.npz"));
  const std::size_t begin = 30 + std::string("samples.npy").size() + 20 + 128;
  bool is_same = bytes.size() > begin + static_cast<std::size_t>(count * sample_bytes);
  for (std::int64_t i = 0; i < count && is_same; ++i)
    for (std::int64_t at = 0; at < sample_bytes && is_same; at += 997)
      is_same = static_cast<unsigned char>(bytes[begin + static_cast<std::size_t>(i * sample_bytes + at)]) ==
                (i * 31 + at) % 251;
  CHECK(is_same);
}

TEST_CASE("what holds no prepared samples is not written over") {
  const DataFolder folder;
  const std::string element = bytes_of({7}), foreign = zip({{"x.npy", npy("|u1", "(1,)", element)}});
  for (const std::string& content : {std::string("notes"), std::string("PK"), std::string(), foreign}) {
    const std::string path = folder.write("a.npz", content);
    CHECK_THROWS_WITH(write_samples(CountedSamples(3, 5), 3, 0, path),
                      Contains("a.npz' exists and is no .npz of prepared samples"));
    CHECK(bytes_in_file(path) == content);
  }
  CHECK_THROWS_AS(write_samples(CountedSamples(3, 5), 3, 0, folder.path()), DataError);
  CHECK_THROWS_AS(write_samples(CountedSamples(3, 5), 3, 0, folder.path("none/a.npz")), DataError);
  CHECK(names_in(folder) == std::vector<std::string>{"a.npz"});
}

TEST_CASE("a sample that cannot be read leaves the file that was there, and nothing else") {
  const DataFolder folder;
  const std::string path = folder.path("a.npz");
  write_samples(CountedSamples(3, 5), 3, 0, path);
  const std::string before = bytes_in_file(path);
  CHECK_THROWS_WITH(write_samples(CountedSamples(9, 5, 4), 9, 0, path), Contains("sample is bad"));
  CHECK(bytes_in_file(path) == before);
  CHECK(names_in(folder) == std::vector<std::string>{"a.npz"});
  write_samples(CountedSamples(9, 5), 2, 0, path);
  CHECK(bytes_in_file(path) != before);
}

TEST_CASE("samples are written as their epoch draws them") {
  const DataFolder folder;
  DataConfig config = digits_config();
  config.train_transforms = {TransformSpec{"flip", FlipSpec{}}};
  const LoadedData data = load_data(config, 3);
  for (const std::int64_t epoch : {0, 1}) write_samples(*data.train, 50, epoch, folder.path(std::to_string(epoch)));
  const auto first = arrays_of(folder.path("0"), "samples", "targets"),
             second = arrays_of(folder.path("1"), "samples", "targets");
  const auto reader = data.train->make_reader();
  const LoadedData plain = load_data(digits_config(), 3);
  int num_other = 0;
  for (std::int64_t i = 0; i < 50; ++i) {
    CHECK(data.train->number_of(i) == plain.train->number_of(i));
    CHECK(data.validation->number_of(i) == plain.validation->number_of(i));
    std::array<std::byte, 64> sample{};
    std::int32_t target = 0;
    reader->read(1, i, std::array{sample.data(), reinterpret_cast<std::byte*>(&target)});
    std::vector<int> pixels;
    for (const std::byte byte : sample) pixels.push_back(std::to_integer<int>(byte));
    CHECK(pixels_of(*second, i) == pixels);
    num_other += pixels_of(*first, i) != pixels ? 1 : 0;
  }
  CHECK(num_other > 10);
}
