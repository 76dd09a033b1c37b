#include <array>
#include <catch2/catch.hpp>
#include <filesystem>
#include <random>

#include "tests/datasets/array_files.h"
#include "tests/datasets/data_files.h"
#include "tests/datasets/heap_calls.h"
#include "tests/datasets/image/encoded_images.h"
#include "tests/datasets/image_file_writing.h"

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

std::int64_t some_below(std::mt19937& numbers, std::uint32_t count) {
  return static_cast<std::int64_t>(numbers() % count);
}

/// A transform with numbers of its own. A crop without padding is no larger than `smallest`.
TransformVariant any_transform(std::mt19937& numbers, std::int64_t smallest) {
  const auto below = [&](std::uint32_t count) { return some_below(numbers, count); };
  const Pair size{1 + below(60), 1 + below(60)};
  const auto interpolation = static_cast<Resampling>(below(3));
  switch (below(13)) {
    case 0:
    case 1:
      return ResizeSpec{{1 + below(70)}, interpolation};
    case 2:
      return ResizeSpec{{size[0], size[1]}, interpolation};
    case 3:
      return CenterCropSpec{size};
    case 4:
      return RandomCropSpec{size, {below(30), below(9), below(9), below(30)}, true, static_cast<PadMode>(below(3)), 9};
    case 5:
      return RandomCropSpec{
          {1 + below(static_cast<std::uint32_t>(smallest)), 1 + below(static_cast<std::uint32_t>(smallest))}};
    case 6:
    case 7:
      return RandomResizedCropSpec{size, {0.08, 1}, {0.75, 4.0 / 3}, interpolation};
    case 8:
      return FlipSpec{static_cast<FlipDirection>(below(2)), 0.5};
    case 9:
      return RotateSpec{{below(2) == 0 ? 30.0 : 0.0}, static_cast<Resampling>(below(2)), 7};
    case 10:
      return ColorJitterSpec{{0.4}, {0.4}, {0.4}, {0.1}};
    case 11:
      return RandomErasingSpec{};
    default:
      return below(2) == 0 ? ToGreySpec{0.5, 1} : ToGreySpec{1, 1 + 2 * below(2)};
  }
}

/// The shorter side of what comes out of images whose shorter sides are `smallest` or more.
std::int64_t smallest_after(const TransformVariant& transform, std::int64_t smallest) {
  const auto of_pair = [](Pair size) { return std::min(size[0], size[1]); };
  if (const auto* resize = std::get_if<ResizeSpec>(&transform))
    return std::min(resize->size.front(), resize->size.back());
  if (const auto* centre = std::get_if<CenterCropSpec>(&transform)) return of_pair(centre->size);
  if (const auto* crop = std::get_if<RandomCropSpec>(&transform)) return of_pair(crop->size);
  if (const auto* part = std::get_if<RandomResizedCropSpec>(&transform)) return of_pair(part->size);
  return smallest;
}

std::vector<TransformSpec> any_chain(std::mt19937& numbers, std::int64_t smallest) {
  std::vector<TransformSpec> chain(1 + numbers() % 5);
  for (TransformSpec& transform : chain) {
    transform.spec = any_transform(numbers, smallest);
    smallest = smallest_after(transform.spec, smallest);
  }
  // All become one size.
  if (some_below(numbers, 3) > 0) {
    chain.push_back({"resize", ResizeSpec{{1 + some_below(numbers, 40), 1 + some_below(numbers, 40)}}});
  } else {
    chain.push_back({"center_crop", CenterCropSpec{{1 + some_below(numbers, 40), 1 + some_below(numbers, 40)}}});
  }
  return chain;
}

/// Chains that people write.
std::vector<std::vector<TransformSpec>> usual_chains() {
  const auto chain = [](std::initializer_list<TransformVariant> transforms) {
    std::vector<TransformSpec> specs;
    for (const TransformVariant& transform : transforms) specs.push_back({"", transform, {}});
    return specs;
  };
  const RandomResizedCropSpec part{{20, 24}};
  return {
      chain({part, FlipSpec{}}),
      chain({ResizeSpec{{32}}, CenterCropSpec{{28, 28}}}),
      chain({ResizeSpec{{32}}, RandomCropSpec{{28, 28}}, FlipSpec{}, ColorJitterSpec{{0.4}, {0.4}, {0.4}, {0.1}}}),
      chain({ResizeSpec{{20, 20}}, RandomCropSpec{{20, 20}, {4, 4, 4, 4}}, FlipSpec{}, RandomErasingSpec{}}),
      chain({RandomCropSpec{{24, 24}, {0, 0, 0, 0}, true}, FlipSpec{}}),
      chain({CenterCropSpec{{30, 20}}, RotateSpec{{15}, Resampling::bilinear}, ToGreySpec{}}),
      chain({FlipSpec{}, RotateSpec{{10}}, part}),
      chain({ResizeSpec{{60}, Resampling::bicubic}, part, RotateSpec{{15}}, FlipSpec{}}),
      chain({ResizeSpec{{200, 150}}}),
  };
}

/// Files of every format that is decoded with memory of ours, of sizes from 3 pixels a side on.
void write_images(const DataFolder& folder, std::mt19937& numbers, const std::string& below, bool with_masks) {
  std::filesystem::remove_all(folder.path(below));
  for (int i = 0; i < 12; ++i) {
    const std::int64_t height = 3 + some_below(numbers, 90), width = 3 + some_below(numbers, 90);
    const Image image = smooth_image(height, width, i % 4 == 3 ? 1 : 3);
    const JpegMaking making{.progressive = i % 3 == 0,
                            .horizontal_sampling = static_cast<int>(1 + some_below(numbers, 2)),
                            .vertical_sampling = static_cast<int>(1 + some_below(numbers, 2))};
    const std::string name = below + (with_masks ? "/images/" : "/a/") + std::to_string(i);
    Pair size{height, width};
    switch (i % 6) {
      case 0:
      case 1:
        write_below(folder, name + ".jpg", text_of(make_jpeg(image, making)));
        break;
      case 2:
        write_below(folder, name + ".jpg", text_of(with_exif(make_jpeg(image, making), 6)));
        size = {width, height};
        break;
      case 3:
        write_below(folder, name + ".bmp", text_of(make_bmp(height, width, {}, [](std::int64_t y, std::int64_t x) {
                      return static_cast<std::uint32_t>(y * x);
                    })));
        break;
      default:
        write_below(folder, name + ".png", text_of(make_png(image)));
    }
    if (!with_masks) continue;
    Image mask = patterned_image(size[0], size[1], 1);
    for (std::uint8_t& value : mask.pixels()) value %= 3;
    write_below(folder, below + "/masks/" + std::to_string(i) + ".png", text_of(make_png(mask)));
  }
}

/// Reads some epochs by a reader of each part: they hold what was planned, from their beginning on, and take nothing
/// else.
void check_readers(const DataConfig& config) {
  const LoadedData data = load_data(config, 5);
  REQUIRE(data.description == describe_data(config, 5));
  std::vector<std::byte> pixels(static_cast<std::size_t>(data.train->input_types().front().num_bytes()));
  std::vector<std::byte> target(static_cast<std::size_t>(data.train->target_type().num_bytes()));
  const auto read_all = [&](const Dataset& dataset, SampleReader& reader) {
    for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
      for (std::int64_t i = 0; i < dataset.size(); ++i) reader.read(epoch, i, std::array{pixels.data(), target.data()});
      if (dataset.categorical()) reader.read_classes(epoch, 0, reinterpret_cast<std::int32_t*>(target.data()));
    }
  };
  std::int64_t held = 0;
  for (const auto& dataset : {data.train, data.validation}) {
    if (!dataset) continue;
    const auto reader = dataset->make_reader();
    const std::int64_t reserved = reader->held_bytes();
#ifdef TRAINER_COUNT_HEAP_CALLS
    CHECK(heap_calls_of([&] { read_all(*dataset, *reader); }) == 0);
#else
    read_all(*dataset, *reader);
#endif
    CHECK(reader->held_bytes() == reserved);
    held += reserved;
  }
  CHECK(held == data.description.reader_bytes);
}

void check_with_caches(const DataFolder& folder, DataConfig config) {
  for (const ImageCaching cache : {ImageCaching::none, ImageCaching::ram, ImageCaching::disk}) {
    CAPTURE(static_cast<int>(cache));
    config.cache = cache;
    config.cache_folder = folder.path("cache");
    check_readers(config);
    if (cache == ImageCaching::disk) check_readers(config);  // of a cache that is there
  }
  std::filesystem::remove_all(folder.path("cache"));
}

/// As numbers of alternatives.
std::string kinds_of(const std::vector<TransformSpec>& chain) {
  std::string kinds;
  for (const TransformSpec& transform : chain) kinds += std::to_string(transform.spec.index()) + " ";
  return kinds;
}

}  // namespace

TEST_CASE("A reader of images holds what is planned from its beginning on, and takes nothing for a sample") {
  const DataFolder folder;
  std::mt19937 numbers(11);
  for (const bool with_masks : {false, true}) {
    CAPTURE(with_masks);
    DataConfig config;
    config.root = folder.path("data");
    config.type = with_masks ? DataType::segmentation : DataType::image_folder;
    if (with_masks) config.classes = 3;
    std::vector<std::vector<TransformSpec>> chains = usual_chains();
    for (int i = 0; i < 120; ++i) chains.push_back(any_chain(numbers, 3));
    for (std::size_t i = 0; i < chains.size(); ++i) {
      if (i % 8 == 0) write_images(folder, numbers, "data", with_masks);
      CAPTURE(i, kinds_of(chains[i]));
      config.train_transforms = chains[i];
      config.channels = i % 5 == 0 ? 1 : i % 7 == 0 ? 4 : 3;
      check_with_caches(folder, config);
    }
  }
}

TEST_CASE("Readers of pixels that lie in memory hold what is planned, too") {
  DataConfig config;
  config.type = DataType::digits;
  config.train_transforms = {{"random_crop", RandomCropSpec{{6, 6}, {2, 2, 2, 2}}}, {"rotate", RotateSpec{{10}}}};
  config.validation_transforms = {{"center_crop", CenterCropSpec{{6, 6}}}};
  check_readers(config);

  const DataFolder folder;
  folder.write("train-images-idx3-ubyte", bytes_of({0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 2, 1, 2, 3, 4}));
  folder.write("train-labels-idx3-ubyte", bytes_of({0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 2, 1, 0, 1, 0}));
  config.type = DataType::idx;
  config.root = folder.path();
  config.validation_transforms = {};
  check_readers(config);
}

TEST_CASE("What libwebp takes by itself is told apart, and nothing else is estimated for files that are there") {
  const DataFolder folder;
  write_below(folder, "a/1.png", png_of(9, 7, 1));
  DataConfig config;
  config.type = DataType::image_folder;
  config.root = folder.path();
  config.train_transforms = {{"resize", ResizeSpec{{4, 4}}}};
  CHECK(describe_data(config, 5).reader_library_bytes == 0);
  write_below(folder, "a/2.webp", text_of(make_webp(patterned_image(20, 30, 3))));
  for (const std::int64_t channels : {1, 3, 4}) {
    config.channels = channels;
    const LoadedData data = load_data(config, 5);
    CHECK(data.description.reader_library_bytes == 4 * 20 * 30);
    CHECK_FALSE(data.description.estimates_readers);
    const auto reader = data.train->make_reader();
    for (std::int64_t i = 0; i < 4; ++i) {
      std::vector<std::byte> pixels(4 * 4 * 4), label(4);
      reader->read(i / 2, i % 2, std::array{pixels.data(), label.data()});
      CHECK(reader->held_bytes() == data.description.reader_bytes);
    }
  }
  config.root = "/nowhere";
  config.shape = {20, 30, 3};
  config.channels = 3;
  config.classes = 2;
  config.samples = 10;
  CHECK(describe_data(config, 5).estimates_readers);
}

TEST_CASE("A file that is replaced by a larger one is a sample that cannot be read, and no thread grows") {
  const DataFolder folder;
  const auto write_all = [&] {
    write_below(folder, "a/1.png", text_of(make_png(patterned_image(20, 30, 3))));
    write_below(folder, "a/2.png", text_of(make_png(patterned_image(20, 30, 3))));
    write_below(folder, "a/3.jpg", text_of(make_jpeg(smooth_image(25, 12, 3))));
  };
  write_all();
  DataConfig config;
  config.type = DataType::image_folder;
  config.root = folder.path();
  config.train_transforms = {{"resize", ResizeSpec{{10}}}, {"center_crop", CenterCropSpec{{8, 8}}}};
  const LoadedData data = load_data(config, 5);
  const auto reader = data.train->make_reader();
  std::vector<std::byte> pixels(8 * 8 * 3), label(4);
  const auto read = [&](std::int64_t i) { reader->read(0, i, std::array{pixels.data(), label.data()}); };
  const auto error = [&](const std::string& path, const std::string& file) {
    write_all();
    write_below(folder, path, file);
    std::string message = error_of([&] { read(0); });
    CHECK(reader->held_bytes() == data.description.reader_bytes);
    return message;
  };
  CHECK_THAT(error("a/1.png", text_of(make_png(patterned_image(60, 90, 3)))),
             Contains("a/1.png' was replaced: it has") && Contains("but no file had more than"));
  // Fewer bytes, more pixels; a side; a JPEG whose coefficients all come before its pixels; one that is to be turned.
  CHECK_THAT(error("a/1.png", png_of(40, 40, 1)), Contains("a/1.png: the file was replaced") && Contains("40×40"));
  CHECK_THAT(error("a/1.png", png_of(1, 31, 1)), Contains("the file was replaced"));
  JpegMaking progressive;
  progressive.quality = 20;
  progressive.progressive = true;
  CHECK_THAT(error("a/1.png", text_of(with_exif(make_jpeg(smooth_image(20, 30, 3), progressive), 6))),
             Contains("the file was replaced"));
  write_all();
  CHECK_NOTHROW(read(0));

  config.on_bad_sample = OnBadSample::skip;
  const LoadedData skipping = load_data(config, 5);
  write_below(folder, "a/1.png", png_of(40, 40, 1));
  skipping.train->make_reader()->read(0, 0, std::array{pixels.data(), label.data()});
  REQUIRE(skipping.train->skipped_samples().size() == 1);
  CHECK_THAT(skipping.train->skipped_samples().front(), Contains("the file was replaced"));
}
