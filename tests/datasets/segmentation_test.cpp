#include <fmt/format.h>

#include <array>
#include <catch2/catch.hpp>
#include <filesystem>

#include "tests/datasets/data_files.h"
#include "tests/datasets/image/encoded_images.h"
#include "tests/datasets/image_file_writing.h"

using namespace trainer;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

/// Grey, of the values row by row.
std::string mask_png(std::int64_t height, std::int64_t width, const std::vector<int>& values) {
  Image image;
  image.reshape(height, width, 1);
  for (std::size_t i = 0; i < values.size(); ++i) image.pixels()[i] = static_cast<std::uint8_t>(values[i]);
  return text_of(make_png(image));
}

DataConfig segmentation_config(const DataFolder& folder, std::int64_t classes = 3) {
  DataConfig config;
  config.type = DataType::segmentation;
  config.root = folder.path();
  config.classes = classes;
  return config;
}

/// Images of levels 10 and 20, 2×3, whose masks hold 0 to 2.
DataConfig two_masks(const DataFolder& folder) {
  write_below(folder, "images/b.x.png", png_of(2, 3, 20));
  write_below(folder, "images/a.bmp", png_of(2, 3, 10));
  write_below(folder, "masks/a.png", mask_png(2, 3, {0, 1, 2, 2, 1, 0}));
  write_below(folder, "masks/b.x.webp", mask_png(2, 3, {1, 1, 1, 2, 2, 2}));
  return segmentation_config(folder);
}

std::vector<int> classes_in(const Dataset& dataset, std::int64_t index) {
  std::vector<std::int32_t> classes(static_cast<std::size_t>(dataset.target_type().num_elements()));
  dataset.read_classes(index, classes.data());
  return {classes.begin(), classes.end()};
}

std::string first_mask_error(const DataConfig& config) {
  return error_of([&] { classes_in(*load_data(config, 1).train, 0); });
}

}  // namespace

TEST_CASE("Images and masks are paired by their names without their endings") {
  const DataFolder folder;
  const DataConfig config = two_masks(folder);
  const LoadedData data = load_data(config, 1);
  REQUIRE(data.train->size() == 2);
  CHECK(data.train->input_types().front() == TensorType{DType::u8, Shape{2, 3, 3}});
  CHECK(data.train->target_type() == TensorType{DType::i32, Shape{2, 3}});
  CHECK(data.description.num_outputs == 3);
  CHECK_FALSE(data.description.has_negative_targets);
  CHECK(pixels_of(*data.train, 0).back() == 10);
  CHECK(classes_in(*data.train, 0) == std::vector<int>{0, 1, 2, 2, 1, 0});
  CHECK(pixels_of(*data.train, 1).back() == 20);
  CHECK(classes_in(*data.train, 1) == std::vector<int>{1, 1, 1, 2, 2, 2});
  CHECK(describe_data(config, 1) == data.description);
  CHECK(data.description.held_bytes > 0);
}

TEST_CASE("Images with masks for training and validation are found where such sets have them") {
  const auto check = [](const std::array<std::string, 4>& folders, const std::string& suffix, const auto& change) {
    const DataFolder folder;
    write_below(folder, folders[0] + "/1.png", png_of(2, 2, 10));
    write_below(folder, folders[1] + "/1" + suffix + ".png", mask_png(2, 2, {0, 0, 0, 1}));
    write_below(folder, folders[2] + "/2.png", png_of(2, 2, 20));
    write_below(folder, folders[3] + "/2" + suffix + ".png", mask_png(2, 2, {2, 0, 0, 0}));
    DataConfig config = segmentation_config(folder);
    config.mask_suffix = suffix;
    change(config);
    const LoadedData data = load_data(config, 1);
    CHECK(classes_in(*data.train, 0) == std::vector<int>{0, 0, 0, 1});
    REQUIRE(data.validation);
    CHECK(data.validation->size() == 1);
    CHECK(pixels_of(*data.validation, 0).back() == 20);
    CHECK(classes_in(*data.validation, 0) == std::vector<int>{2, 0, 0, 0});
  };
  const auto as_found = [](DataConfig&) {};
  check({"train/images", "train/masks", "val/images", "val/masks"}, "", as_found);
  check({"train/images", "train/labels", "test/images", "test/annotations"}, "_L", as_found);
  check({"images/train", "annotations/train", "images/valid", "annotations/valid"}, "", as_found);
  check({"x", "y", "z", "w"}, "", [](DataConfig& config) {
    config.train = "x";
    config.train_labels = "y";
    config.validation = "z";
    config.validation_labels = "w";
  });
  check({"all", "all", "more", "more"}, "_mask", [](DataConfig& config) {
    config.train = "all";
    config.validation = "more";
  });
}

TEST_CASE("A mask of a file follows its image through what is drawn") {
  const DataFolder folder;
  DataConfig config = two_masks(folder);
  FlipSpec flip;
  flip.p = 1;
  config.train_transforms = {{"flip", flip}};
  const LoadedData flipped = load_data(config, 1);
  CHECK(classes_in(*flipped.train, 0) == std::vector<int>{2, 1, 0, 0, 1, 2});
  // The pixel that is 0 has gone to the other end of its row.
  CHECK(pixels_of(*flipped.train, 0)[6] == 0);

  ResizeSpec resize;
  resize.size = {4, 3};
  config.train_transforms = {{"resize", resize}};
  const LoadedData resized = load_data(config, 1);
  CHECK(resized.train->target_type().shape == Shape{4, 3});
  CHECK(classes_in(*resized.train, 0) == std::vector<int>{0, 1, 2, 0, 1, 2, 2, 1, 0, 2, 1, 0});
}

TEST_CASE("Values of masks stand for classes as the configuration says, and no value is guessed") {
  const DataFolder folder;
  write_below(folder, "images/a.png", png_of(1, 4, 10));
  write_below(folder, "masks/a.png", mask_png(1, 4, {0, 255, 7, 8}));
  DataConfig config = segmentation_config(folder, 0);
  CHECK_THAT(error_of<ConfigError>([&] { describe_data(config, 1); }),
             Contains("data.classes is missing") && Contains("a.png' holds 0, 7, 8, 255"));
  config.classes = 8;
  CHECK_THAT(first_mask_error(config), Contains("masks/a.png' has the value 255 in row 0, column 1, which is none of 8 "
                                                "classes") &&
                                           Contains("loss.ignore_index: 255"));
  config.ignored_target = 255;
  CHECK_THAT(first_mask_error(config), Contains("the value 8 in row 0, column 3"));
  config.classes = 9;
  CHECK(classes_in(*load_data(config, 1).train, 0) == std::vector<int>{0, 255, 7, 8});

  config.classes = 0;
  config.ignored_target = -100;
  config.mask_classes.values = {{0, 0}, {255, -1}, {7, 1}, {8, 1}};
  const LoadedData mapped = load_data(config, 1);
  CHECK(mapped.description.num_outputs == 2);
  CHECK(mapped.description.has_negative_targets);
  CHECK(classes_in(*mapped.train, 0) == std::vector<int>{0, -100, 1, 1});
  config.mask_classes.values = {{255, 1}, {0, 0}};
  CHECK_THAT(first_mask_error(config), Contains("the value 7 in row 0, column 2, which is none of 2 classes"));
  config.mask_classes.leaves_others_out = true;
  CHECK(classes_in(*load_data(config, 1).train, 0) == std::vector<int>{0, 1, -100, -100});
  config.classes = 1;
  CHECK_THAT(error_of<ConfigError>([&] { describe_data(config, 1); }),
             Contains("data.mask_classes has class 1, but there are 1 classes"));
  config.classes = 0;
  config.class_names = {"ground", "water"};
  CHECK(load_data(config, 1).preprocessing.classes == config.class_names);
  config.classes = 2;
  config.class_names = {"ground"};
  CHECK_THAT(error_of<ConfigError>([&] { describe_data(config, 1); }), Contains("data.class_names has 1"));
}

TEST_CASE("An image without a mask, or a mask that does not suit it, ends a run with its name or is left out") {
  const DataFolder folder;
  DataConfig config = two_masks(folder);
  const auto check = [&](const std::string& path, const std::string& bytes, const std::string& message) {
    write_below(folder, path, bytes);
    config.on_bad_sample = OnBadSample::error;
    CHECK_THAT(load_error(config), Contains(message));
    config.on_bad_sample = OnBadSample::skip;
    const LoadedData data = load_data(config, 1);
    CHECK(data.train->size() == 2);
    REQUIRE(data.remarks.size() == 1);
    CHECK_THAT(data.remarks.front(), Contains("left out") && Contains(message));
    std::filesystem::remove(folder.path(path));
  };
  check("images/c.png", png_of(2, 3, 1), "images/c.png' has no mask in");
  check("masks/d.png", mask_png(1, 1, {0}), "masks/d.png' is the mask of no image in");
  check("images/e.png", "no image", "images/e.png");
  write_below(folder, "images/f.png", png_of(3, 2, 1));
  check("masks/f.png", mask_png(2, 3, {0, 0, 0, 0, 0, 0}), "masks/f.png' is 2×3, but its image");
  std::filesystem::remove(folder.path("images/f.png"));

  write_below(folder, "images/notes.txt", "no image");
  CHECK(load_data(config, 1).remarks == std::vector<std::string>{"1 file that is no image is left out"});
  write_below(folder, "images/a.png", png_of(2, 3, 1));
  CHECK_THAT(load_error(config), Contains("have one name"));
}

TEST_CASE("A mask of colours, or one that was changed since its header was read, is an error with its name") {
  const DataFolder folder;
  DataConfig config = two_masks(folder);
  write_below(folder, "masks/a.png", png_of(2, 3, 1));
  CHECK_THAT(first_mask_error(config), Contains("masks/a.png") && Contains("of colours"));
  write_below(folder, "masks/a.png", mask_png(2, 3, {0, 0, 0, 0, 0, 0}));
  const LoadedData data = load_data(config, 1);
  write_below(folder, "masks/a.png", mask_png(1, 3, {0, 0, 0}));
  CHECK_THAT(error_of([&] { classes_in(*data.train, 0); }), Contains("masks/a.png' is 1×3, but its image"));
}

TEST_CASE("Images and masks in one folder need a suffix, and folders that are missing are named") {
  const DataFolder folder;
  write_below(folder, "all/a.png", png_of(2, 3, 1));
  DataConfig config = segmentation_config(folder);
  config.train = config.train_labels = "all";
  CHECK_THAT(error_of<ConfigError>([&] { describe_data(config, 1); }), Contains("images and masks are both in"));
  config.mask_suffix = "_mask";
  CHECK_THAT(load_error(config), Contains("all/a.png' has no mask"));
  config = segmentation_config(folder);
  CHECK_THAT(load_error(config), StartsWith("no folder") && Contains("images'"));
  config.root.clear();
  CHECK_THAT(error_of<ConfigError>([&] { describe_data(config, 1); }), Contains("data.root is missing"));
}

TEST_CASE("A plan needs no masks where classes, samples and the size are declared") {
  DataConfig config;
  config.type = DataType::segmentation;
  config.root = "/nowhere";
  config.classes = 5;
  config.samples = 10;
  config.shape = {6, 8, 3};
  const DataDescription description = describe_data(config, 1);
  CHECK(description.target == TensorType{DType::i32, Shape{6, 8}});
  ResizeSpec resize;
  resize.size = {4, 4};
  config.shape.clear();
  config.train_transforms = config.validation_transforms = {{"resize", resize}};
  CHECK(describe_data(config, 1).target == TensorType{DType::i32, Shape{4, 4}});
}
