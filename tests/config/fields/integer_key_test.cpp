#include "engine/config/fields/integer_key.h"

#include <catch2/catch.hpp>

#include "engine/config/load_experiment.h"
#include "engine/errors.h"

using namespace trainer;

namespace {

std::string refusal_of_key(std::string_view key, const std::vector<LayerSpec>& layers) {
  try {
    integer_range_of(key, layers);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "taken";
}

}  // namespace

TEST_CASE("a search takes a layer's number by its path, with the kinds on the way or without them") {
  const std::vector<LayerSpec> layers =
      parse_experiment(
          "model:\n  blocks: {unit: {layers: [conv2d: {out: 3, kernel: 1, name: conv}]}}\n  layers:\n"
          "    - sequential: {name: body, layers: [unit, residual: {layers: [unit]}]}\n"
          "    - repeat: {times: 2, layers: [linear: {out: 3}]}\n",
          "test.yaml")
          .layers;
  for (const char* key :
       {"model.layers.body.0.conv.out", "model.layers.0.0.0.conv2d.out", "model.layers.body.1.layers.0.conv.out",
        "model.layers.body.sequential.layers.1.residual.layers.0.sequential.layers.conv.conv2d.out",
        "model.layers.1.times", "model.layers.1.repeat.layers.0.out"}) {
    INFO(key);
    CHECK(integer_range_of(key, layers).lowest == 1);
  }
  CHECK(integer_range_of("model.layers.body.0.conv.padding", layers).lowest == 0);
  CHECK(integer_range_of("model.with.width", layers).lowest == 0);
  CHECK(refusal_of_key("model.layers.body.0.conv.bias", layers).find("takes true or false") != std::string::npos);
  CHECK(refusal_of_key("model.layers.body.layers", layers).find("is a list of layers") != std::string::npos);
  CHECK(refusal_of_key("model.with", layers) != "taken");
}
