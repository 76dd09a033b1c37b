#include "engine/config/fields/model_numbers.h"

#include <catch2/catch.hpp>

#include "engine/config/load_experiment.h"

using namespace trainer;

namespace {

std::vector<LayerSpec> layers_of(const std::string& list) {
  return parse_experiment("model: {layers: " + list + "}\n", "test.yaml").layers;
}

bool list_depends_on_batch(const std::string& list) { return depends_on_batch(layers_of(list)); }

}  // namespace

TEST_CASE("the numbers of a model are its layers' widths and repeats, in order, inside other layers too") {
  std::vector<LayerSpec> layers = layers_of(
      "[conv2d: {out: 8, kernel: 3, groups: 2}, repeat: {times: 3, layers: [sequential: {layers: [linear: {out: 7}]}]},"
      " residual: {layers: [linear: {out: 6}], shortcut: [relu, linear: {out: 5}]}]");
  std::vector<std::string> told;
  for (const ModelNumber& number : numbers_of_model(layers))
    told.push_back((number.is_width ? "width " : "depth ") + number.key + " " + std::to_string(*number.value));
  CHECK(told == std::vector<std::string>{"width model.layers.0.conv2d.out 8", "depth model.layers.1.repeat.times 3",
                                         "width model.layers.1.repeat.layers.0.sequential.layers.0.linear.out 7",
                                         "width model.layers.2.residual.layers.0.linear.out 6",
                                         "width model.layers.2.residual.shortcut.1.linear.out 5"});
  *numbers_of_model(layers).back().value = 4;
  CHECK(*numbers_of_model(layers).back().value == 4);
}

TEST_CASE("samples depend on the batch through batch norm and through dropout that drops, wherever they stand") {
  CHECK_FALSE(list_depends_on_batch("[linear: {out: 4}, layernorm, relu, groupnorm: {groups: 2}, dropout: {p: 0}]"));
  CHECK(list_depends_on_batch("[linear: {out: 4}, dropout]"));
  CHECK(list_depends_on_batch("[repeat: {times: 2, layers: [sequential: {layers: [batchnorm2d]}]}]"));
  CHECK(list_depends_on_batch("[linear: {out: 4}, batchnorm1d]"));
  CHECK(list_depends_on_batch("[residual: {layers: [relu], shortcut: [dropout: {p: 0.1}]}]"));
  CHECK_FALSE(list_depends_on_batch("[residual: {layers: [relu], shortcut: [tanh]}]"));
}
