#include "engine/shape.h"

#include <catch2/catch.hpp>
#include <vector>

#include "engine/errors.h"

namespace trainer::test {

TEST_CASE("A shape has dimensions, counted from either end") {
  const Shape shape = {32, 28, 27, 3};
  CHECK(shape.rank() == 4);
  CHECK(shape[0] == 32);
  CHECK(shape[3] == 3);
  CHECK(shape[-1] == 3);
  CHECK(shape[-4] == 32);
  CHECK(std::vector<std::int64_t>(shape.begin(), shape.end()) == std::vector<std::int64_t>{32, 28, 27, 3});
  CHECK(shape.num_elements() == 32 * 28 * 27 * 3);
  CHECK(shape.to_string() == "32×28×27×3");
}

TEST_CASE("A scalar has one element, a shape with a zero none") {
  CHECK(Shape{}.rank() == 0);
  CHECK(Shape{}.num_elements() == 1);
  CHECK(Shape{}.to_string() == "scalar");
  CHECK(Shape{5, 0, 3}.num_elements() == 0);
}

TEST_CASE("Shapes are equal when rank and dimensions are") {
  CHECK(Shape{2, 3} == Shape{2, 3});
  CHECK_FALSE(Shape{2, 3} == Shape{3, 2});
  CHECK_FALSE(Shape{2} == Shape{2, 1});
  CHECK_FALSE(Shape{} == Shape{0});
  const std::vector<std::int64_t> dims = {2, 3};
  CHECK(Shape(dims) == Shape{2, 3});
}

TEST_CASE("with_batch replaces the first dimension only") {
  CHECK(Shape{32, 10}.with_batch(7) == Shape{7, 10});
  CHECK(Shape{32}.with_batch(1) == Shape{1});
  CHECK(Shape{}.with_batch(4) == Shape{});
}

TEST_CASE("A shape that no machine holds is an error, not an overflow") {
  const std::int64_t two_to_30 = std::int64_t{1} << 30;
  CHECK(Shape{two_to_30, two_to_30}.num_elements() == std::int64_t{1} << 60);
  CHECK_THROWS_AS((Shape{two_to_30, two_to_30, 2}.num_elements()), ConfigError);
  CHECK_THROWS_AS((Shape{two_to_30, two_to_30, two_to_30, two_to_30}.num_elements()), ConfigError);
  CHECK_THROWS_WITH((Shape{two_to_30, two_to_30, 2}.num_elements()), Catch::Contains("1073741824×1073741824×2"));
}

TEST_CASE("A shape has at most five dimensions") {
  CHECK(Shape{1, 2, 3, 4, 5}.num_elements() == 120);
  CHECK_THROWS_AS((Shape{1, 2, 3, 4, 5, 6}), InternalError);
  CHECK_THROWS_AS(Shape(std::vector<std::int64_t>(100, 1)), InternalError);
}

TEST_CASE("A tensor's bytes are its elements times the size of its type") {
  CHECK(TensorType{DType::f32, {2, 3}}.num_bytes() == 24);
  CHECK(TensorType{DType::f16, {2, 3}}.num_bytes() == 12);
  CHECK(TensorType{DType::bf16, {2, 3}}.num_bytes() == 12);
  CHECK(TensorType{DType::u8, {2, 3}}.num_bytes() == 6);
  CHECK(TensorType{DType::i32, {2, 3}}.num_bytes() == 24);
  CHECK(TensorType{DType::i64, {2, 3}}.num_bytes() == 48);
  CHECK(TensorType{DType::f64, {2, 3}}.num_bytes() == 48);
  CHECK(TensorType{DType::f32, {2, 3}}.to_string() == "f32 2×3");
}

}  // namespace trainer::test
