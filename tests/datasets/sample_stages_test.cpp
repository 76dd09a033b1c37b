#include "datasets/sample_stages.h"

#include <array>
#include <catch2/catch.hpp>

#include "tests/datasets/data_files.h"
#include "tests/source_folder.h"

using namespace trainer;

namespace {

DataConfig digit_images(std::vector<TransformSpec> transforms) {
  DataConfig config;
  config.type = DataType::image_folder;
  config.root = source_folder() + "/tests/datasets/digit_images/images";
  config.train_transforms = std::move(transforms);
  return config;
}

TransformSpec shrink_to(std::int64_t side) {
  ResizeSpec resize;
  resize.size = {side, side};
  return {"resize", resize};
}

double seconds_of(const StageTimes& times, SampleStage stage) {
  return times.seconds.at(static_cast<std::size_t>(stage));
}

}  // namespace

TEST_CASE("A reader of images tells what its stages take while it is asked to, and reads the same bytes") {
  const LoadedData data = load_data(digit_images({shrink_to(10)}), 1);
  const std::unique_ptr<SampleReader> plain = data.train->make_reader(), timed = data.train->make_reader();
  StageTimes times;
  CHECK(timed->time_stages(&times));
  const auto num_bytes = static_cast<std::size_t>(data.train->input_types().front().num_bytes());
  std::vector<std::byte> expected(num_bytes), read(num_bytes);
  std::int32_t expected_class = 0, read_class = 0;
  constexpr std::int64_t num_read = 30;
  for (std::int64_t i = 0; i < num_read; ++i) {
    plain->read(0, i, std::array{expected.data(), reinterpret_cast<std::byte*>(&expected_class)});
    timed->read(0, i, std::array{read.data(), reinterpret_cast<std::byte*>(&read_class)});
    CHECK(read == expected);
    CHECK(read_class == expected_class);
  }
  CHECK(times.num_samples == num_read);
  for (const SampleStage stage : {SampleStage::read, SampleStage::decode, SampleStage::transform, SampleStage::copy})
    CHECK(seconds_of(times, stage) > 0);
  // 24×24 become 10×10: twice of that is more than a half leaves.
  CHECK(times.num_reducible == 0);
  timed->time_stages(nullptr);
  timed->read(0, 0, std::array{read.data(), reinterpret_cast<std::byte*>(&read_class)});
  CHECK(times.num_samples == num_read);
}

TEST_CASE("JPEGs that reduced decoding is for are counted, with it and without") {
  DataConfig config = digit_images({shrink_to(6)});
  for (const bool reduced : {false, true}) {
    config.reduced_decoding = reduced;
    const LoadedData data = load_data(config, 1);
    const std::unique_ptr<SampleReader> reader = data.train->make_reader();
    StageTimes times;
    reader->time_stages(&times);
    std::vector<std::byte> read(static_cast<std::size_t>(data.train->input_types().front().num_bytes()));
    std::int32_t label = 0;
    // Thirteen kinds of files by turns, of which five are JPEGs.
    for (std::int64_t i = 0; i < 26; ++i)
      reader->read(0, i, std::array{read.data(), reinterpret_cast<std::byte*>(&label)});
    CHECK(times.num_samples == 26);
    CHECK(times.num_reducible == 10);
  }
}

TEST_CASE("Samples that lie in memory are read in one stage, which is not timed") {
  DataConfig config;
  const LoadedData data = load_data(config, 1);
  StageTimes times;
  const std::unique_ptr<SampleReader> reader = data.train->make_reader();
  CHECK_FALSE(reader->time_stages(&times));
  std::vector<std::byte> pixels(64);
  std::int32_t label = 0;
  reader->read(0, 0, std::array{pixels.data(), reinterpret_cast<std::byte*>(&label)});
  CHECK(times.num_samples == 0);
}
