#include "datasets/image_cache.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "datasets/batch_reader.h"
#include "tests/datasets/data_files.h"
#include "tests/datasets/image/encoded_images.h"
#include "tests/datasets/image_file_writing.h"

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

TransformSpec shorter_side(std::int64_t side) {
  ResizeSpec resize;
  resize.size = {side};
  return {"resize", resize};
}
TransformSpec random_crop_of(std::int64_t side) {
  RandomCropSpec crop;
  crop.size = {side, side};
  return {"random_crop", crop};
}
TransformSpec random_part(std::int64_t side) {
  RandomResizedCropSpec part;
  part.size = {side, side};
  return {"random_resized_crop", part};
}
TransformSpec middle(std::int64_t side) {
  CenterCropSpec crop;
  crop.size = {side, side};
  return {"center_crop", crop};
}

/// Images of several sizes, a third of which are set aside.
DataConfig photographs(const DataFolder& folder) {
  for (int i = 0; i < 9; ++i)
    write_below(folder, fmt::format("images/{}/{}.png", i % 2, i),
                text_of(make_png(patterned_image(12 + i % 4, 17 - i % 3, 3))));
  DataConfig config;
  config.type = DataType::image_folder;
  config.root = folder.path() + "/images";
  config.split = 1.0 / 3;
  config.train_transforms = {shorter_side(10), random_crop_of(8), {"flip", FlipSpec{}}};
  config.validation_transforms = {shorter_side(10), middle(8)};
  config.cache_folder = folder.path() + "/cache";
  return config;
}

/// Of some epochs, sample by sample, as a new reader gives them.
std::vector<std::vector<std::byte>> samples_of(const Dataset& dataset, std::int64_t num_epochs) {
  const std::unique_ptr<SampleReader> reader = dataset.make_reader();
  std::vector<std::vector<std::byte>> samples;
  for (std::int64_t epoch = 0; epoch < num_epochs; ++epoch) {
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
      const auto num_pixels = static_cast<std::size_t>(dataset.input_types().front().num_bytes());
      std::vector<std::byte> sample(num_pixels + static_cast<std::size_t>(dataset.target_type().num_bytes()));
      reader->read(epoch, i, std::array{sample.data(), sample.data() + num_pixels});
      samples.push_back(std::move(sample));
    }
  }
  return samples;
}

std::vector<std::vector<std::byte>> samples_of(const DataConfig& config, std::uint64_t seed = 5) {
  const LoadedData data = load_data(config, seed);
  std::vector<std::vector<std::byte>> samples = samples_of(*data.train, 3);
  if (data.validation)
    for (auto& sample : samples_of(*data.validation, 2)) samples.push_back(std::move(sample));
  return samples;
}

DataConfig with_cache(DataConfig config, ImageCaching cache) {
  config.cache = cache;
  return config;
}

std::vector<std::string> cache_files(const DataConfig& config) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(config.cache_folder))
    files.push_back(entry.path().string());
  return files;
}

}  // namespace

TEST_CASE("Samples have the same bits with and without a cache, in every epoch") {
  const DataFolder folder;
  DataConfig config = photographs(folder);
  for (const bool draws_first : {false, true}) {
    if (draws_first) config.train_transforms = {random_part(8), {"flip", FlipSpec{}}};
    const auto expected = samples_of(config);
    CHECK(samples_of(with_cache(config, ImageCaching::ram)) == expected);
    CHECK(samples_of(with_cache(config, ImageCaching::disk)) == expected);
    CHECK(samples_of(with_cache(config, ImageCaching::disk)) == expected);
  }
  // Two of training, one of validation, which stays the same.
  CHECK(cache_files(config).size() == 3);
}

TEST_CASE("A cache on a disk is used by later runs, whatever they take of the data, and made anew for other files") {
  const DataFolder folder;
  const DataConfig config = with_cache(photographs(folder), ImageCaching::disk);
  const auto expected = samples_of(config);
  const auto of_other_split = samples_of(with_cache(config, ImageCaching::none), 6);
  samples_of(config, 6);
  CHECK(cache_files(config).size() == 2);
  // Pixels that are not read again are not missed.
  namespace fs = std::filesystem;
  std::vector<std::string> images;
  for (const auto& entry : fs::recursive_directory_iterator(config.root))
    if (entry.is_regular_file()) images.push_back(entry.path().string());
  for (const std::string& image : images) {
    const fs::file_time_type time = fs::last_write_time(image);
    std::fstream file(image, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(60);
    file << "damage";
    file.close();
    fs::last_write_time(image, time);
  }
  CHECK(samples_of(config) == expected);
  CHECK(samples_of(config, 6) == of_other_split);
  fs::last_write_time(images[0], fs::last_write_time(images[0]) + std::chrono::seconds(1));
  CHECK_THROWS_AS(samples_of(config), DataError);
  CHECK(cache_files(config).size() >= 3);
}

TEST_CASE("Masks are kept beside their images") {
  const DataFolder folder;
  for (int i = 0; i < 5; ++i) {
    const Image image = patterned_image(14, 11 + i, 3);
    Image mask = patterned_image(14, 11 + i, 1);
    for (std::uint8_t& value : mask.pixels()) value %= 3;
    write_below(folder, fmt::format("data/images/{}.png", i), text_of(make_png(image)));
    write_below(folder, fmt::format("data/masks/{}.png", i), text_of(make_png(mask)));
  }
  DataConfig config;
  config.type = DataType::segmentation;
  config.root = folder.path() + "/data";
  config.classes = 3;
  config.train_transforms = {shorter_side(9), random_part(8), {"flip", FlipSpec{}}};
  config.cache_folder = folder.path() + "/cache";
  const auto expected = samples_of(config);
  CHECK(samples_of(with_cache(config, ImageCaching::ram)) == expected);
  CHECK(samples_of(with_cache(config, ImageCaching::disk)) == expected);
  CHECK(samples_of(with_cache(config, ImageCaching::disk)) == expected);
}

TEST_CASE("Whatever bytes of a cache are damaged, samples stay what they are") {
  const DataFolder folder;
  const DataConfig config = with_cache(photographs(folder), ImageCaching::disk);
  const auto expected = samples_of(config);
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    for (const std::string& path : cache_files(config)) {
      const std::uintmax_t size = std::filesystem::file_size(path);
      if (round % 10 == 9) {
        std::filesystem::resize_file(path, random() % size);
        continue;
      }
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      for (int i = 0; i < 20; ++i) {
        // The header and the index too.
        file.seekp(static_cast<std::streamoff>(random() % (i % 2 == 0 ? size : std::min<std::uintmax_t>(size, 4400))));
        file.put(static_cast<char>(random()));
      }
    }
    REQUIRE(samples_of(config) == expected);
  }
}

TEST_CASE("A cache that is cut off while it is open is done without") {
  const DataFolder folder;
  const DataConfig config = with_cache(photographs(folder), ImageCaching::disk);
  const LoadedData data = load_data(config, 5);
  const auto expected = samples_of(*data.train, 2);
  for (const std::string& path : cache_files(config)) std::filesystem::resize_file(path, 5000);
  CHECK(samples_of(*data.train, 2) == expected);
}

TEST_CASE("What a killed process leaves of a cache is never believed") {
  const DataFolder folder;
  const DataConfig config = with_cache(photographs(folder), ImageCaching::disk);
  const auto expected = samples_of(with_cache(config, ImageCaching::none));
  for (int round = 0; round < 25; ++round) {
    std::filesystem::remove_all(config.cache_folder);
    const pid_t child = fork();
    if (child == 0) {
      try {
        samples_of(config);
        pause();
      } catch (...) {
        _exit(1);
      }
    }
    REQUIRE(child > 0);
    while (!std::filesystem::exists(config.cache_folder) || cache_files(config).empty())
      REQUIRE(waitpid(child, nullptr, WNOHANG) == 0);
    std::this_thread::sleep_for(std::chrono::microseconds(20 * round));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    REQUIRE(samples_of(config) == expected);
  }
}

TEST_CASE("Images that cannot be written are told once, and read as without a cache") {
  const DataFolder folder;
  DataConfig config = with_cache(photographs(folder), ImageCaching::disk);
  config.on_bad_sample = OnBadSample::skip;
  const auto expected = samples_of(*load_data(with_cache(config, ImageCaching::none), 5).train, 2);
  const LoadedData data = load_data(config, 5);
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1000, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  const auto found = samples_of(*data.train, 2);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  CHECK(found == expected);
  CHECK_THAT(data.train->cache_failure(), Contains("cannot write to the cache of images"));
  CHECK(data.train->skipped_samples().empty());
}

TEST_CASE("Several threads fill a cache at once") {
  const DataFolder folder;
  const DataConfig plain = photographs(folder);
  const auto expected = samples_of(*load_data(plain, 5).train, 3);
  for (const ImageCaching cache : {ImageCaching::ram, ImageCaching::disk}) {
    const LoadedData data = load_data(with_cache(plain, cache), 5);
    std::vector<std::vector<std::vector<std::byte>>> found(4);
    std::vector<std::thread> threads;
    for (auto& samples : found) threads.emplace_back([&] { samples = samples_of(*data.train, 3); });
    for (std::thread& thread : threads) thread.join();
    for (const auto& samples : found) CHECK(samples == expected);
  }
}

TEST_CASE("What a cache takes is told beforehand") {
  const DataFolder folder;
  DataConfig config = photographs(folder);
  CHECK(describe_data(config, 5).cache_bytes == 0);
  // 6 for training, of which the longest is 12×17 and becomes 10×14, and 3 for validation, of 8×8.
  config.cache = ImageCaching::ram;
  CHECK(describe_data(config, 5).cache_bytes == 6 * (8 + 10 * 14 * 3) + 3 * (8 + 8 * 8 * 3));
  CHECK(load_data(config, 5).description == describe_data(config, 5));
  config.cache = ImageCaching::disk;
  CHECK(describe_data(config, 5).cache_bytes == 2 * 9 * 8);

  DataConfig declared;
  declared.type = DataType::image_folder;
  declared.root = "/nowhere";
  declared.classes = 2;
  declared.samples = 1000;
  ResizeSpec resize;
  resize.size = {20, 30};
  declared.train_transforms = {{"resize", resize}, random_crop_of(16)};
  declared.cache = ImageCaching::ram;
  CHECK(describe_data(declared, 5).cache_bytes == 1000 * (8 + 20 * 30 * 3));
}

TEST_CASE("A cache that cannot be made is told with its place") {
  const DataFolder folder;
  DataConfig config = with_cache(photographs(folder), ImageCaching::disk);
  folder.write("file", "x");
  config.cache_folder = folder.path() + "/file/cache";
  CHECK_THROWS_WITH(load_data(config, 5), Contains("data.cache_folder names another place"));
  CHECK_THROWS_WITH(make_disk_cache({10, 100, 3}, folder.path(), 1, std::int64_t{1} << 59),
                    Contains("data.cache: disk takes about") && Contains("has"));
}
