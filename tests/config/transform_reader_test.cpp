#include "engine/config/transform_reader.h"

#include <catch2/catch.hpp>

#include "engine/config/load_experiment.h"
#include "engine/errors.h"

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

std::string data_with_transforms(const std::string& list) {
  return "data: {type: cifar10, root: data, transforms: {train: " + list +
         "}}\nmodel: {layers: [flatten, linear: {out: 10}]}\n";
}

std::vector<TransformSpec> transforms_of(const std::string& list) {
  return parse_experiment(data_with_transforms(list), "test.yaml").data.train_transforms;
}

std::string transform_mistake(const std::string& list) {
  try {
    transforms_of(list);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

// As torchvision.transforms.v2 documents them.
TEST_CASE("a transform without keys has torchvision's defaults") {
  const std::vector<TransformSpec> transforms = transforms_of(
      "[resize: {size: 8}, random_crop: {size: 6}, random_resized_crop: {size: 5}, flip, rotate: {degrees: 10}, "
      "color_jitter, random_erasing, to_grey, center_crop: {size: [4, 3]}]");
  REQUIRE(transforms.size() == 9);
  const auto& resize = std::get<ResizeSpec>(transforms[0].spec);
  CHECK(resize.size == std::vector<std::int64_t>{8});
  CHECK(resize.interpolation == Resampling::bilinear);
  const auto& crop = std::get<RandomCropSpec>(transforms[1].spec);
  CHECK(crop.size == Pair{6, 6});
  CHECK(crop.padding == Sides{0, 0, 0, 0});
  CHECK_FALSE(crop.pad_if_needed);
  CHECK(crop.mode == PadMode::zeros);
  CHECK(crop.fill == 0);
  const auto& part = std::get<RandomResizedCropSpec>(transforms[2].spec);
  CHECK(part.scale == Range{0.08, 1.0});
  CHECK(part.ratio == Range{3.0 / 4.0, 4.0 / 3.0});
  CHECK(std::get<FlipSpec>(transforms[3].spec).p == 0.5);
  CHECK(std::get<FlipSpec>(transforms[3].spec).direction == FlipDirection::horizontal);
  CHECK(std::get<RotateSpec>(transforms[4].spec).interpolation == Resampling::nearest);
  CHECK(std::get<ColorJitterSpec>(transforms[5].spec).brightness.empty());
  const auto& erasing = std::get<RandomErasingSpec>(transforms[6].spec);
  CHECK(erasing.p == 0.5);
  CHECK(erasing.scale == Range{0.02, 0.33});
  CHECK(erasing.ratio == Range{0.3, 3.3});
  CHECK(std::get<ToGreySpec>(transforms[7].spec).channels == 1);
  CHECK(std::get<CenterCropSpec>(transforms[8].spec).size == Pair{4, 3});
}

TEST_CASE("transforms are shown as what reads back to the same") {
  const std::string list =
      "[resize: {size: [9, 7], interpolation: bicubic}, random_crop: {size: 6, padding: [1, 2, 3, 4], padding_mode: "
      "edge}, flip: {direction: vertical, p: 1}, color_jitter: {brightness: 0.4, hue: [-0.1, 0.2]}, to_grey: {p: 0.1}]";
  const Experiment experiment = parse_experiment(data_with_transforms(list), "test.yaml");
  const Experiment again = parse_experiment(resolved_yaml(experiment), "again.yaml");
  CHECK(resolved_json(again) == resolved_json(experiment));
  REQUIRE(again.data.train_transforms.size() == 5);
  CHECK(std::get<RandomCropSpec>(again.data.train_transforms[1].spec).padding == Sides{1, 2, 3, 4});
  CHECK(std::get<ColorJitterSpec>(again.data.train_transforms[3].spec).hue == std::vector<double>{-0.1, 0.2});
  CHECK(again.data.validation_transforms.empty());
}

TEST_CASE("what mixes batches is kept apart, and shown where it was written") {
  const Experiment experiment =
      parse_experiment(data_with_transforms("[flip, mixup: {alpha: 0.2}, cutmix: {p: 0.5}]"), "test.yaml");
  REQUIRE(experiment.data.train_transforms.size() == 1);
  REQUIRE(experiment.data.batch_transforms.size() == 2);
  CHECK(std::get<MixUpSpec>(experiment.data.batch_transforms[0].spec).alpha == 0.2);
  CHECK(std::get<MixUpSpec>(experiment.data.batch_transforms[0].spec).p == 1);
  CHECK(std::get<CutMixSpec>(experiment.data.batch_transforms[1].spec).alpha == 1);
  CHECK(std::get<CutMixSpec>(experiment.data.batch_transforms[1].spec).p == 0.5);
  const Experiment again = parse_experiment(resolved_yaml(experiment), "again.yaml");
  CHECK(resolved_json(again) == resolved_json(experiment));
  CHECK(again.data.batch_transforms.size() == 2);
  CHECK(parse_experiment(resolved_yaml(experiment), "again.yaml", {"data.transforms.train=[flip]"})
            .data.batch_transforms.empty());
}

TEST_CASE("mistakes in what mixes batches are told") {
  CHECK_THAT(transform_mistake("[mixup, flip]"), Contains("'flip' stands behind 'mixup'") && Contains("'mixup' last"));
  CHECK_THAT(transform_mistake("[cutmix, cutmix: {alpha: 2}]"), Contains("'cutmix' stands there twice"));
  CHECK_THAT(transform_mistake("[mixup: {alpha: 0}]"), Contains("'alpha'"));
  CHECK_THAT(transform_mistake("[MixUp]"), Contains("did you mean 'mixup'?"));
  CHECK_THAT(transform_mistake("[flip], validation: [mixup]"),
             Contains("'mixup' mixes training batches") && Contains("data.transforms.train"));
}

TEST_CASE("mistakes in transforms are told with their place and what was meant") {
  CHECK_THAT(transform_mistake("[RandomHorizontalFlip]"), Contains("test.yaml:1:") && Contains("did you mean 'flip'?"));
  CHECK_THAT(transform_mistake("[resise: {size: 3}]"), Contains("did you mean 'resize'?"));
  CHECK_THAT(transform_mistake("[random_crop: {padding: 4}]"), Contains("'random_crop' needs 'size'"));
  CHECK_THAT(transform_mistake("[flip: {q: 1}]"), Contains("unknown key 'q'") && Contains("one of direction, p"));
  CHECK_THAT(transform_mistake("[flip: {p: 1.5}]"), Contains("exceeds 1"));
  CHECK_THAT(transform_mistake("[resize: {size: [1, 2, 3]}]"), Contains("has 3 elements"));
  CHECK_THAT(transform_mistake("[resize: {size: 40000}]"), Contains("exceeds 32768"));
  CHECK_THAT(transform_mistake("[rotate: {degrees: [5, 1]}]"), Contains("goes from the larger to the smaller"));
  CHECK_THAT(transform_mistake("[rotate: {degrees: -5}]"), Contains("'degrees' is negative"));
  CHECK_THAT(transform_mistake("[color_jitter: {hue: 0.6}]"), Contains("exceeds 0.5"));
  CHECK_THAT(transform_mistake("[to_grey: {channels: 2}]"), Contains("1 or 3"));
  CHECK_THAT(transform_mistake("[flip, 3]"), Contains("unknown transform '3'"));
  CHECK_THAT(transform_mistake("flip"), Contains("is not a list"));
  CHECK_THAT(transform_mistake("[{flip: , resize: {size: 3}}]"), Contains("a transform has one key"));
}
