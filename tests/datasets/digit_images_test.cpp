#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/datasets/data_files.h"
#include "tests/source_folder.h"

using namespace trainer;

namespace {

/// The values of a .npy file of version 1.
std::vector<int> bytes_of_npy(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  REQUIRE(bytes.size() > 10);
  const std::size_t begin = 10 + static_cast<unsigned char>(bytes[8]) + 256 * static_cast<unsigned char>(bytes[9]);
  std::vector<int> values;
  for (std::size_t i = begin; i < bytes.size(); ++i) values.push_back(static_cast<unsigned char>(bytes[i]));
  return values;
}

}  // namespace

TEST_CASE("Files of every kind are read as PIL reads them") {
  DataConfig config;
  config.type = DataType::image_folder;
  config.root = source_folder() + "/tests/datasets/digit_images/images";
  const LoadedData data = load_data(config, 1);
  REQUIRE(data.train->size() == 300);
  CHECK(data.description.num_outputs == 10);
  const std::vector<int> by_pil = bytes_of_npy(source_folder() + "/tests/datasets/digit_images/decoded_by_pil.npy");
  const std::array<const char*, 13> kinds = {"jpg",        "progressive.jpg", "grey.jpg",  "turned.jpg", "png",
                                             "grey.png",   "palette.png",     "alpha.png", "webp",       "bmp",
                                             "lossy.webp", "16bit.png",       "cmyk.jpg"};
  constexpr std::size_t sample_bytes = 24 * 24 * 3;
  REQUIRE(by_pil.size() == kinds.size() * sample_bytes);
  // The files of a kind are where it stands in the list, in every class.
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    INFO(kinds[kind]);
    const std::vector<int> pixels = pixels_of(*data.train, static_cast<std::int64_t>(kind));
    CHECK(data.train->class_of(static_cast<std::int64_t>(kind)) == 0);
    int most = 0;
    double sum = 0;
    for (std::size_t i = 0; i < sample_bytes; ++i) {
      const int difference = std::abs(pixels[i] - by_pil[kind * sample_bytes + i]);
      most = std::max(most, difference);
      sum += difference;
    }
    // PIL brings libraries of its own, which may round otherwise what files hold approximately.
    const bool is_lossy = std::string(kinds[kind]).ends_with("jpg") || std::string(kinds[kind]) == "lossy.webp";
    CHECK(most <= (is_lossy ? 4 : 0));
    CHECK(sum / sample_bytes <= (is_lossy ? 1.0 : 0.0));
  }
}
