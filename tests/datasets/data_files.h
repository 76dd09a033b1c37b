#pragma once

#include <unistd.h>
#include <zlib.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "datasets/dataset.h"

namespace trainer {

/// A folder of its own for each test, removed at the end.
class DataFolder {
 public:
  DataFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "trainer-data-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~DataFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  DataFolder(const DataFolder&) = delete;
  DataFolder& operator=(const DataFolder&) = delete;

  std::string path(const std::string& name = "") const { return (path_ / name).string(); }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }

 private:
  std::filesystem::path path_;
};

inline std::string gzipped(const std::string& bytes) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(deflateBound(&stream, bytes.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(packed.size() - stream.avail_out);
  deflateEnd(&stream);
  return packed;
}

/// Bytes from numbers: bytes_of({0, 0, 8, 3}).
inline std::string bytes_of(std::initializer_list<int> values) {
  std::string bytes;
  for (const int value : values) bytes.push_back(static_cast<char>(value));
  return bytes;
}

inline std::vector<int> pixels_of(const Dataset& dataset, std::int64_t index) {
  std::vector<std::byte> sample(static_cast<std::size_t>(dataset.input_types().front().num_bytes()));
  std::vector<std::byte> target(static_cast<std::size_t>(dataset.target_type().num_bytes()));
  dataset.read(index, std::array{sample.data(), target.data()});
  std::vector<int> pixels;
  for (const std::byte byte : sample) pixels.push_back(std::to_integer<int>(byte));
  return pixels;
}

inline std::vector<float> floats_of(const Dataset& dataset, std::int64_t index, bool of_target = false) {
  std::vector<std::byte> sample(static_cast<std::size_t>(dataset.input_types().front().num_bytes()));
  std::vector<std::byte> target(static_cast<std::size_t>(dataset.target_type().num_bytes()));
  dataset.read(index, std::array{sample.data(), target.data()});
  const std::vector<std::byte>& bytes = of_target ? target : sample;
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// The message of the error that loading throws; empty where it throws none.
template <typename ErrorType = DataError, typename Action>
std::string error_of(const Action& action) {
  try {
    action();
  } catch (const ErrorType& error) {
    return error.what();
  }
  return "";
}

inline std::string load_error(const DataConfig& config) {
  return error_of([&] { load_data(config, 1); });
}

}  // namespace trainer
