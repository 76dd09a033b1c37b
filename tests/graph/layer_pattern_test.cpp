#include "engine/graph/layer_pattern.h"

#include <catch2/catch.hpp>

#include <string>

using namespace trainer;

TEST_CASE("A pattern means the layer of that path, what lies under that path, and layers of that kind") {
  CHECK(matches_layer("body.3", "body.3", "conv2d"));
  CHECK(matches_layer("body.3", "body.3.layers.1", "relu"));
  CHECK(matches_layer("body", "body.3.layers.1", "relu"));
  CHECK(matches_layer("relu", "body.3.layers.1", "relu"));
  CHECK(matches_layer("0", "0", "flatten"));
}

TEST_CASE("A pattern ends where a part of the path ends") {
  CHECK_FALSE(matches_layer("body.3", "body.31", "conv2d"));
  CHECK_FALSE(matches_layer("body.3", "body.31.layers.0", "conv2d"));
  CHECK_FALSE(matches_layer("bod", "body.3", "conv2d"));
  CHECK_FALSE(matches_layer("layers.1", "body.3.layers.1", "conv2d"));
  CHECK_FALSE(matches_layer("3", "body.3", "conv2d"));
  CHECK_FALSE(matches_layer("conv", "0", "conv2d"));
  CHECK_FALSE(matches_layer("body.3.layers.1", "body.3", "conv2d"));
}

TEST_CASE("A star stands for any characters, none and dots included") {
  CHECK(matches_layer("*", "0", "relu"));
  CHECK(matches_layer("*", "", "relu"));
  CHECK(matches_layer("body.*", "body.3.layers.1", "relu"));
  CHECK(matches_layer("*.layers.1", "body.3.layers.1", "relu"));
  CHECK(matches_layer("body.*.1", "body.3.layers.1", "relu"));
  CHECK(matches_layer("body*3", "body3", "relu"));
  CHECK(matches_layer("*norm*", "7", "batchnorm2d"));
  CHECK(matches_layer("**a**", "a", "relu"));
  CHECK_FALSE(matches_layer("body.*", "body", "relu"));
  CHECK_FALSE(matches_layer("*.2", "body.3.layers.1", "relu"));
  CHECK_FALSE(matches_layer("*pool", "7", "maxpool2d"));
}

TEST_CASE("An empty pattern means no layer that has a path") { CHECK_FALSE(matches_layer("", "0", "relu")); }

TEST_CASE("A pattern of many stars is answered at once") {
  std::string pattern;
  for (int i = 0; i < 1000; ++i) pattern += "*a";
  CHECK_FALSE(matches_layer(pattern + "b", std::string(4000, 'a'), "relu"));
  CHECK(matches_layer(pattern, std::string(4000, 'a'), "relu"));
}

TEST_CASE("Patterns are checked against all layers, and one that means none is an error") {
  std::vector<Layer> layers(3);
  layers[0].path = "0";
  layers[0].kind = "conv2d";
  layers[1].path = "body.0";
  layers[1].kind = "relu";
  layers[2].path = "body.1";
  layers[2].kind = "conv2d";
  const auto matching = [&](const std::vector<std::string>& patterns) {
    return matching_layers(patterns, layers, "memory.offload", {});
  };
  CHECK(matching({}) == std::vector<bool>{false, false, false});
  CHECK(matching({"conv2d"}) == std::vector<bool>{true, false, true});
  CHECK(matching({"0", "body"}) == std::vector<bool>{true, true, true});
  CHECK_THROWS_WITH(matching({"conv2d", "gelu"}), Catch::Contains("'memory.offload': no layer matches 'gelu'"));
  CHECK_THROWS_AS(matching({"conv2d", "gelu"}), ConfigError);
}
