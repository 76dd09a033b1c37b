#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "datasets/batch_reader.h"
#include "tests/datasets/data_files.h"
#include "tests/datasets/image/encoded_images.h"
#include "tests/datasets/image_file_writing.h"

using namespace trainer;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

DataConfig folder_config(const DataFolder& folder) {
  DataConfig config;
  config.type = DataType::image_folder;
  config.root = folder.path();
  return config;
}

/// Two classes of 2×3, six images in all; cats have levels from 10 on, dogs from 20 on.
DataConfig two_classes(const DataFolder& folder) {
  write_below(folder, "dog/b.png", png_of(2, 3, 21));
  write_below(folder, "dog/a.png", png_of(2, 3, 20));
  write_below(folder, "cat/z.bmp", png_of(2, 3, 10));
  write_below(folder, "cat/old/y.png", png_of(2, 3, 12));
  write_below(folder, "cat/no_ending", png_of(2, 3, 11));
  write_below(folder, "dog/c.png", png_of(2, 3, 22));
  return folder_config(folder);
}

int last_level(const Dataset& dataset, std::int64_t index) { return pixels_of(dataset, index).back(); }

std::vector<int> levels_of(const Dataset& dataset) {
  std::vector<int> levels;
  for (std::int64_t i = 0; i < dataset.size(); ++i) levels.push_back(last_level(dataset, i));
  return levels;
}

TransformSpec flip_always() {
  FlipSpec flip;
  flip.p = 1;
  return {"flip", flip};
}

TransformSpec resize_to(std::int64_t height, std::int64_t width) {
  ResizeSpec resize;
  resize.size = {height, width};
  return {"resize", resize};
}

TransformSpec crop_to(std::int64_t side) {
  RandomCropSpec crop;
  crop.size = {side, side};
  return {"random_crop", crop};
}

}  // namespace

TEST_CASE("Classes are the folders in the order of their names, samples the files below them in the order of theirs") {
  const DataFolder folder;
  const LoadedData data = load_data(two_classes(folder), 1);
  CHECK(data.train->input_types().front() == TensorType{DType::u8, Shape{2, 3, 3}});
  CHECK(data.preprocessing.classes == std::vector<std::string>{"cat", "dog"});
  // A folder's files come before those of the folders in it, and are images by their contents.
  CHECK(levels_of(*data.train) == std::vector<int>{11, 10, 12, 20, 21, 22});
  for (std::int64_t i = 0; i < 6; ++i) CHECK(data.train->class_of(i) == (i < 3 ? 0 : 1));
  CHECK(data.description.num_outputs == 2);
  CHECK_FALSE(data.validation);
  CHECK(describe_data(two_classes(folder), 1) == data.description);
}

TEST_CASE("Class names give another order, or take some of the classes") {
  const DataFolder folder;
  DataConfig config = two_classes(folder);
  config.class_names = {"dog", "cat"};
  CHECK(load_data(config, 1).train->class_of(0) == 0);
  CHECK(levels_of(*load_data(config, 1).train) == std::vector<int>{20, 21, 22, 11, 10, 12});
  config.class_names = {"dog"};
  CHECK(load_data(config, 1).train->size() == 3);
  config.class_names = {"dog", "bird"};
  CHECK_THAT(error_of<ConfigError>([&] { load_data(config, 1); }), Contains("'bird', which is no folder"));
  config.class_names = {"dog", "dog"};
  CHECK_THAT(error_of<ConfigError>([&] { load_data(config, 1); }), Contains("'dog' twice"));
}

TEST_CASE("Validation images are found beside training images, named, or set aside") {
  const DataFolder folder;
  write_below(folder, "train/a/1.png", png_of(2, 2, 1));
  write_below(folder, "train/b/1.png", png_of(2, 2, 2));
  write_below(folder, "train/b/2.png", png_of(2, 2, 3));
  write_below(folder, "val/b/1.png", png_of(2, 2, 4));
  DataConfig config = folder_config(folder);
  LoadedData data = load_data(config, 1);
  REQUIRE(data.validation);
  CHECK(levels_of(*data.validation) == std::vector<int>{4});
  CHECK(data.validation->class_of(0) == 1);

  config.split = 0.4;
  data = load_data(config, 1);
  CHECK(data.train->size() == 2);
  CHECK(data.validation->size() == 1);
  std::set<int> levels{last_level(*data.train, 0), last_level(*data.train, 1), last_level(*data.validation, 0)};
  CHECK(levels == std::set<int>{1, 2, 3});

  write_below(folder, "more/c/1.png", png_of(2, 2, 5));
  config.split = 0;
  config.validation = "more";
  CHECK_THAT(error_of([&] { load_data(config, 1); }), Contains("more/c' is no class"));
}

TEST_CASE("What cannot be read ends a run with its name, or is left out and told") {
  const DataFolder folder;
  DataConfig config = two_classes(folder);
  write_below(folder, "cat/a.jpg", "no image");
  write_below(folder, "dog/e.txt", "a note");
  CHECK_THAT(error_of([&] { load_data(config, 1); }), Contains("cat/a.jpg: no JPEG") && Contains("on_bad_sample=skip"));
  write_below(folder, "dog/d.dat", "GIF89a picture");
  CHECK_THAT(error_of([&] { load_data(config, 1); }), Contains("(and 1 more like it)"));
  config.on_bad_sample = OnBadSample::skip;
  const LoadedData data = load_data(config, 1);
  CHECK(data.train->size() == 6);
  REQUIRE(data.remarks.size() == 2);
  CHECK_THAT(data.remarks[0], Contains("2 files that cannot be read are left out") && Contains("cat/a.jpg"));
  CHECK_THAT(data.remarks[1], Contains("1 file that is no image is left out"));
}

TEST_CASE("The next sample takes the place of one that turns out to be damaged, in any thread, and it is told once") {
  const DataFolder folder;
  DataConfig config = two_classes(folder);
  std::string damaged = png_of(2, 3, 21);
  damaged[damaged.size() - 20] ^= 1;  // in the pixels, behind the header
  write_below(folder, "dog/b.png", damaged);
  const LoadedData refused = load_data(config, 1);
  CHECK_THAT(error_of([&] { levels_of(*refused.train); }), Contains("dog/b.png"));

  config.on_bad_sample = OnBadSample::skip;
  const LoadedData data = load_data(config, 1);
  CHECK(data.train->skipped_samples().empty());
  BatchReaderOptions options;
  options.num_workers = 3;
  BatchReader reader(*data.train, Sampler({6, 6, false, false, 0}), options);
  for (int epoch = 0; epoch < 3; ++epoch) {
    const HostBatch* batch = reader.next();
    REQUIRE(batch->num_samples == 6);
    const auto* classes = reinterpret_cast<const std::int32_t*>(batch->fields[1]);
    CHECK(std::vector<int>(classes, classes + 6) == std::vector<int>{0, 0, 0, 1, 1, 1});
    CHECK(std::to_integer<int>(batch->fields[0][4 * 18 + 17]) == 22);
    CHECK(std::to_integer<int>(batch->fields[0][5 * 18 + 17]) == 22);
  }
  REQUIRE(data.train->skipped_samples().size() == 1);
  CHECK_THAT(data.train->skipped_samples().front(), Contains("dog/b.png"));
}

TEST_CASE("Images of several sizes need transforms that end in one, the same for validation") {
  const DataFolder folder;
  DataConfig config = two_classes(folder);
  write_below(folder, "cat/large.png", png_of(8, 9, 13));
  CHECK_THAT(error_of<ConfigError>([&] { describe_data(config, 1); }),
             Contains("from 2×3 to 8×9") && Contains("resize"));
  config.train_transforms = {resize_to(4, 4)};
  CHECK(describe_data(config, 1).inputs.front().type.shape == Shape{4, 4, 3});
  CHECK(levels_of(*load_data(config, 1).train) == std::vector<int>{13, 11, 10, 12, 20, 21, 22});
  config.split = 0.3;
  CHECK_THAT(error_of<ConfigError>([&] { describe_data(config, 1); }), Contains("data.transforms.validation"));
  config.validation_transforms = {resize_to(4, 5)};
  CHECK_THAT(error_of<ConfigError>([&] { describe_data(config, 1); }), Contains("4×4×3") && Contains("4×5×3"));
  config.validation_transforms = {resize_to(4, 4)};
  CHECK(describe_data(config, 1) == load_data(config, 1).description);
}

TEST_CASE("Images are decoded to as many channels as are asked for, and transforms may leave one") {
  const DataFolder folder;
  DataConfig config = two_classes(folder);
  config.channels = 1;
  CHECK(load_data(config, 1).train->input_types().front().shape == Shape{2, 3, 1});
  config.channels = 3;
  config.train_transforms = {{"to_grey", ToGreySpec{}}};
  CHECK(load_data(config, 1).train->input_types().front().shape == Shape{2, 3, 1});
  // torchvision's weights of the channels add up to 0.9999, and what is behind the point is cut off.
  CHECK(last_level(*load_data(config, 1).train, 0) == 10);
}

TEST_CASE("Links are followed to files, not to folders") {
  const DataFolder folder;
  const DataConfig config = two_classes(folder);
  namespace fs = std::filesystem;
  const fs::path root = folder.path();
  fs::create_symlink(root / "dog" / "a.png", root / "cat" / "linked.png");
  fs::create_directory_symlink(root / "dog", root / "cat" / "dogs");
  const LoadedData data = load_data(config, 1);
  CHECK(data.train->size() == 7);
  REQUIRE(data.remarks.size() == 1);
  CHECK_THAT(data.remarks[0], Contains("links to folders are not followed: 1"));
}

TEST_CASE("Missing folders, empty classes and folders without classes are named") {
  const DataFolder folder;
  DataConfig config = folder_config(folder);
  CHECK_THAT(error_of([&] { describe_data(config, 1); }), Contains("has no folders in it"));
  std::filesystem::create_directories(folder.path() + "/empty");
  write_below(folder, "full/1.png", png_of(1, 1, 1));
  CHECK_THAT(error_of([&] { describe_data(config, 1); }), Contains("empty' has no image in it"));
  config.root = folder.path() + "/nowhere";
  CHECK_THAT(error_of([&] { describe_data(config, 1); }), StartsWith("no folder") && Contains("nowhere'"));
  config.root.clear();
  CHECK_THAT(error_of<ConfigError>([&] { describe_data(config, 1); }), Contains("data.root is missing"));
}

TEST_CASE("A plan needs no image files where classes, samples and transforms are declared") {
  DataConfig config;
  config.type = DataType::image_folder;
  config.root = "/nowhere";
  config.classes = 10;
  config.samples = 100;
  CHECK_THAT(error_of<ConfigError>([&] { describe_data(config, 1); }), Contains("not known without their files"));
  config.train_transforms = {crop_to(24)};
  const DataDescription description = describe_data(config, 1);
  CHECK(description.inputs.front().type.shape == Shape{24, 24, 3});
  CHECK(description.num_train == 100);
}

TEST_CASE("What a transform draws depends on seed, epoch and sample alone") {
  const DataFolder folder;
  DataConfig config = folder_config(folder);
  for (int i = 0; i < 6; ++i)
    write_below(folder, fmt::format("a/{}.png", i), text_of(make_png(patterned_image(8, 8, 3))));
  config.train_transforms = {crop_to(3), flip_always()};
  const LoadedData data = load_data(config, 5);
  const std::size_t sample_bytes = 27;
  const auto read = [&](const Dataset& dataset, std::int64_t epoch, std::int64_t index) {
    std::vector<std::byte> pixels(sample_bytes);
    std::int32_t label = -1;
    const std::array<std::byte*, 2> fields = {pixels.data(), reinterpret_cast<std::byte*>(&label)};
    dataset.make_reader()->read(epoch, index, fields);
    return pixels;
  };
  std::set<std::vector<std::byte>> seen;
  for (std::int64_t epoch = 0; epoch < 8; ++epoch) {
    for (std::int64_t i = 0; i < 6; ++i) {
      CHECK(read(*data.train, epoch, i) == read(*data.train, epoch, i));
      seen.insert(read(*data.train, epoch, i));
    }
  }
  CHECK(seen.size() > 15);  // of 36 places
  const LoadedData other = load_data(config, 6);
  int num_different = 0;
  for (std::int64_t i = 0; i < 6; ++i) num_different += read(*data.train, 0, i) != read(*other.train, 0, i) ? 1 : 0;
  CHECK(num_different >= 3);

  // Whatever part is taken, a sample is drawn as itself.
  DataConfig part = config;
  part.samples = 3;
  const LoadedData some = load_data(part, 5);
  for (std::int64_t i = 0; i < 3; ++i) {
    bool is_found = false;
    for (std::int64_t j = 0; j < 6; ++j) is_found = is_found || read(*some.train, 2, i) == read(*data.train, 2, j);
    CHECK(is_found);
  }
}

TEST_CASE("Built-in images can be transformed, and validation images are left as they are") {
  DataConfig plain;
  DataConfig flipped;
  flipped.train_transforms = {flip_always()};
  const LoadedData as_stored = load_data(plain, 1), mirrored = load_data(flipped, 1);
  CHECK(mirrored.description.inputs == as_stored.description.inputs);
  const std::vector<int> before = pixels_of(*as_stored.train, 7), after = pixels_of(*mirrored.train, 7);
  for (std::size_t y = 0; y < 8; ++y)
    for (std::size_t x = 0; x < 8; ++x) CHECK(after[y * 8 + x] == before[y * 8 + 7 - x]);
  CHECK(mirrored.train->class_of(7) == as_stored.train->class_of(7));
  CHECK(pixels_of(*mirrored.validation, 3) == pixels_of(*as_stored.validation, 3));
}

TEST_CASE("Masks follow what is done to their images, and their classes are those of what is read") {
  const DataFolder folder;
  // One image of 4×4 whose mask is its pixels below 16.
  std::string images = bytes_of({0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 4}), masks = images;
  for (int i = 0; i < 16; ++i) images.push_back(static_cast<char>(i)), masks.push_back(static_cast<char>(i));
  folder.write("train-images-idx3-ubyte", images);
  folder.write("train-labels-idx3-ubyte", masks);
  DataConfig config;
  config.type = DataType::idx;
  config.root = folder.path();
  config.train_transforms = {crop_to(2), flip_always()};
  const LoadedData data = load_data(config, 3);
  REQUIRE(data.description.target == TensorType{DType::i32, Shape{2, 2}});
  std::vector<std::byte> pixels(4);
  std::vector<std::int32_t> classes(4), alone(4), of_dataset(4);
  const std::unique_ptr<SampleReader> reader = data.train->make_reader();
  std::set<int> corners;
  for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
    reader->read(epoch, 0, std::array{pixels.data(), reinterpret_cast<std::byte*>(classes.data())});
    for (std::size_t i = 0; i < 4; ++i) CHECK(classes[i] == std::to_integer<int>(pixels[i]));
    CHECK(classes[0] == classes[1] + 1);  // mirrored
    reader->read_classes(epoch, 0, alone.data());
    CHECK(alone == classes);
    corners.insert(classes[0]);
    if (epoch > 0) continue;
    data.train->read_classes(0, of_dataset.data());
    CHECK(of_dataset == classes);
  }
  CHECK(corners.size() > 3);
}

TEST_CASE("JPEGs are decoded at a smaller scale only where that is asked for, to nearly the same pixels") {
  const DataFolder folder;
  DataConfig config = folder_config(folder);
  write_below(folder, "a/1.jpg", text_of(make_jpeg(smooth_image(96, 120, 3))));
  config.train_transforms = {resize_to(12, 15)};
  const std::vector<int> exact = pixels_of(*load_data(config, 1).train, 0);
  config.reduced_decoding = true;
  const std::vector<int> reduced = pixels_of(*load_data(config, 1).train, 0);
  REQUIRE(reduced.size() == exact.size());
  int sum = 0, most = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    sum += std::abs(exact[i] - reduced[i]);
    most = std::max(most, std::abs(exact[i] - reduced[i]));
  }
  CHECK(sum > 0);
  CHECK(sum <= static_cast<int>(exact.size()) * 4);  // of a small picture with much detail
  CHECK(most <= 20);
}

TEST_CASE("Files that are no images do not end a run, whatever they begin with") {
  const DataFolder folder;
  const DataConfig config = two_classes(folder);
  write_below(folder, "cat/notes.txt", "BMW owners, a list");
  write_below(folder, "cat/data.bin", "\xff\x0a not a JPEG XL image");
  const std::filesystem::path root = folder.path();
  std::filesystem::create_symlink(root / "nowhere", root / "cat" / "dangling");
  const LoadedData data = load_data(config, 1);
  CHECK(data.train->size() == 6);
  REQUIRE(data.remarks.size() == 1);
  CHECK_THAT(data.remarks[0], Contains("3 files that are no images are left out"));
  BmpMaking making;
  write_below(folder, "cat/bitmap", text_of(make_bmp(2, 3, making, [](std::int64_t, std::int64_t) { return 0U; })));
  CHECK(load_data(config, 1).train->size() == 7);
}

TEST_CASE("Links to class folders are not followed for validation either") {
  const DataFolder folder;
  write_below(folder, "train/a/1.png", png_of(2, 2, 1));
  write_below(folder, "train/b/1.png", png_of(2, 2, 2));
  write_below(folder, "val/b/1.png", png_of(2, 2, 4));
  write_below(folder, "other/1.png", png_of(2, 2, 5));
  const std::filesystem::path root = folder.path();
  std::filesystem::create_directory_symlink(root / "other", root / "val" / "a");
  const LoadedData data = load_data(folder_config(folder), 1);
  CHECK(levels_of(*data.validation) == std::vector<int>{4});
  REQUIRE(data.remarks.size() == 1);
  CHECK_THAT(data.remarks[0], Contains("links to folders are not followed: 1"));
}

TEST_CASE(
    "Masks of another size than their images, and images of odd channels, are refused where transforms are written") {
  const DataFolder folder;
  folder.write("train-images-idx3-ubyte", bytes_of({0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 2, 1, 2, 3, 4}));
  folder.write("train-labels-idx3-ubyte", bytes_of({0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 1, 0}));
  DataConfig config;
  config.type = DataType::idx;
  config.root = folder.path();
  CHECK_NOTHROW(describe_data(config, 1));
  config.train_transforms = {flip_always()};
  CHECK_THAT(error_of([&] { describe_data(config, 1); }), Contains("masks of 1×2 cannot follow images of 2×2×1"));

  folder.write("train-images-idx3-ubyte",
               bytes_of({0, 0, 8, 4, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 2, 1, 2, 3, 4}));
  CHECK_THAT(error_of<ConfigError>([&] { describe_data(config, 1); }), Contains("1, 3 or 4 channels; these have 2"));
}

TEST_CASE("Where transforms uncover pixels of a mask, its targets may be negative, and else not") {
  const DataFolder folder;
  folder.write("train-images-idx3-ubyte", bytes_of({0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 2, 1, 2, 3, 4}));
  folder.write("train-labels-idx3-ubyte", bytes_of({0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 2, 1, 0, 1, 0}));
  DataConfig config;
  config.type = DataType::idx;
  config.root = folder.path();
  const auto has_negative = [&](const TransformSpec& transform) {
    config.train_transforms = {transform};
    return describe_data(config, 1).has_negative_targets;
  };
  RandomCropSpec padded;
  padded.size = {2, 2};
  padded.padding = {1, 1, 1, 1};
  RotateSpec rotate;
  rotate.degrees = {45};
  CHECK(has_negative({"random_crop", padded}));
  CHECK(has_negative({"rotate", rotate}));
  CHECK(has_negative({"random_erasing", RandomErasingSpec{}}));
  padded.mode = PadMode::reflect;
  CHECK_FALSE(has_negative({"random_crop", padded}));
  CHECK_FALSE(has_negative(flip_always()));
  config.ignored_target = 7;
  CHECK_FALSE(has_negative({"rotate", rotate}));
  // What is uncovered is ignored.
  config.ignored_target = -100;
  CHECK(has_negative({"rotate", rotate}));
  std::vector<std::int32_t> classes(4);
  load_data(config, 1).train->read_classes(0, classes.data());
  for (const std::int32_t each : classes) CHECK((each == -100 || each == 0 || each == 1));
}
