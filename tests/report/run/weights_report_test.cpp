#include "engine/report/run/weights_report.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

WeightsRow loaded_row(const std::string& name, const Shape& shape) {
  WeightsRow row;
  row.status = WeightsStatus::loaded;
  row.name = row.file_name = name;
  row.shape = row.file_shape = shape;
  row.file_dtype = "f32";
  return row;
}

/// A head of another size, a renamed half-precision layer, a transposed matrix, a counter.
WeightsMatch sample_match() {
  WeightsMatch match{.path = "resnet.safetensors", .files = {"resnet.safetensors"}, .rows = {}};
  match.rows.push_back(loaded_row("conv1.weight", {64, 3, 7, 7}));
  WeightsRow renamed = loaded_row("bn1.weight", {64});
  renamed.file_name = "module.bn1.gamma";
  renamed.file_dtype = "f16";
  match.rows.push_back(renamed);
  WeightsRow swapped = loaded_row("proj.weight", {5, 7});
  swapped.file_shape = Shape{7, 5};
  swapped.is_transposed = true;
  match.rows.push_back(swapped);
  WeightsRow fresh;
  fresh.status = WeightsStatus::fresh;
  fresh.name = "fc.weight";
  fresh.shape = Shape{10, 512};
  match.rows.push_back(fresh);
  WeightsRow former = loaded_row("fc.weight", {1000, 512});
  former.status = WeightsStatus::ignored;
  former.shape.reset();
  former.note = "the model's is new";
  match.rows.push_back(former);
  return match;
}

std::size_t lines_of_table(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

TEST_CASE("the table of weights tells of each tensor what becomes of it and what the file has") {
  const WeightsMatch match = sample_match();
  CHECK(weights_line(match) == "resnet.safetensors: 3 tensors loaded, 1 new, 1 ignored");
  CHECK(weights_table(match, false, {false, 100}) ==
        "  tensor        shape                                   in the file\n"
        "  conv1.weight  64×3×7×7  loaded\n"
        "  bn1.weight    64        loaded                        module.bn1.gamma f16\n"
        "  proj.weight   5×7       loaded                        7×5 transposed\n"
        "  fc.weight     10×512    new\n"
        "  fc.weight               ignored (the model's is new)  1000×512\n");
}

TEST_CASE("of many tensors those are shown that are not simply loaded, and all where that is asked for") {
  WeightsMatch match = sample_match();
  for (int i = 0; i < 100; ++i) match.rows.push_back(loaded_row("layer." + std::to_string(i) + ".weight", {3}));
  for (int i = 0; i < 30; ++i) {
    WeightsRow counter = loaded_row("bn." + std::to_string(i) + ".num_batches_tracked", {});
    counter.status = WeightsStatus::ignored;
    counter.shape.reset();
    counter.file_dtype = "i64";
    counter.note = "a counter that nothing reads";
    match.rows.push_back(counter);
  }
  const std::string text = weights_table(match, false, {false, 100});
  CHECK_THAT(text, Contains("module.bn1.gamma") && Contains("7×5") && Contains("the model's is new"));
  CHECK_THAT(text, Contains("… and 97 loaded, 27 ignored more; --full lists them"));
  CHECK(lines_of_table(text) < 20);
  CHECK(lines_of_table(weights_table(match, true, {false, 100})) == match.rows.size() + 1);
}

TEST_CASE("what does not match stands in front of the table, however many tensors there are") {
  WeightsMatch match = sample_match();
  for (int i = 0; i < 100; ++i) {
    WeightsRow renamed = loaded_row("layer." + std::to_string(i) + ".weight", {3});
    renamed.file_name = "module." + renamed.name;
    match.rows.push_back(renamed);
  }
  WeightsRow wrong = loaded_row("head.weight", {10, 512});
  wrong.status = WeightsStatus::mismatched;
  wrong.file_shape = Shape{1000, 512};
  match.rows.push_back(wrong);
  for (const bool whole : {false, true}) {
    const std::string text = weights_table(match, whole, {false, 100});
    CHECK_THAT(text.substr(text.find('\n') + 1), Catch::Matchers::StartsWith("  head.weight"));
  }
}

TEST_CASE("the JSON of weights has all tensors and counts them") {
  const nlohmann::ordered_json told = weights_json(sample_match());
  CHECK(told["loaded"] == 3);
  CHECK(told["new"] == 1);
  CHECK(told["ignored"] == 1);
  CHECK(told["mismatched"] == 0);
  REQUIRE(told["tensors"].size() == 5);
  CHECK(told["tensors"][2]["transposed"] == true);
  CHECK(told["tensors"][2]["file_shape"] == nlohmann::ordered_json({7, 5}));
  CHECK(told["tensors"][3]["file_name"] == nullptr);
  CHECK(told["tensors"][4]["shape"] == nullptr);
}
