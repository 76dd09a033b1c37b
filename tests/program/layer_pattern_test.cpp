#include "engine/program/layer_pattern.h"

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
