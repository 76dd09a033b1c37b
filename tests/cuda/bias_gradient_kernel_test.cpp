#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "cuda/kernels/bias_gradient.h"
#include "cuda/kernels/element.h"

namespace trainer::cuda {
namespace {

template <typename T>
std::vector<T> random_elements(std::int64_t count, float low = -1, float high = 1) {
  std::mt19937 random(static_cast<std::uint32_t>(count));
  std::uniform_real_distribution<float> distribution(low, high);
  std::vector<T> elements;
  for (std::int64_t i = 0; i < count; ++i) elements.push_back(from_float<T>(distribution(random)));
  return elements;
}

template <typename T>
std::vector<T> computed(DType type, const T* dy, std::int64_t rows, std::int64_t columns, int poison) {
  std::vector<T> db(static_cast<std::size_t>(columns));
  std::memset(static_cast<void*>(db.data()), poison, db.size() * sizeof(T));
  std::vector<unsigned char> workspace(static_cast<std::size_t>(bias_gradient_workspace_bytes(rows, columns)),
                                       static_cast<unsigned char>(poison));
  bias_gradient(type, dy, db.data(), rows, columns, workspace.data(), nullptr);
  return db;
}

struct GradientSize {
  std::int64_t rows, columns;
};

template <typename T>
void check_sums(DType type, GradientSize size, double tolerance) {
  INFO(size.rows << " rows of " << size.columns);
  const std::vector<T> dy = random_elements<T>(size.rows * size.columns);
  const std::vector<T> db = computed(type, dy.data(), size.rows, size.columns, 0xFF);
  for (std::int64_t column = 0; column < size.columns; ++column) {
    double sum = 0, magnitude = 0;
    for (std::int64_t row = 0; row < size.rows; ++row) {
      const auto value = static_cast<double>(to_float(dy[static_cast<std::size_t>(row * size.columns + column)]));
      sum += value;
      magnitude += std::fabs(value);
    }
    const auto actual = static_cast<double>(to_float(db[static_cast<std::size_t>(column)]));
    INFO("column " << column);
    REQUIRE(std::fabs(actual - sum) <= tolerance * std::fabs(sum) + 1e-6 * magnitude);
  }
  const std::vector<T> again = computed(type, dy.data(), size.rows, size.columns, 0x3D);
  CHECK(std::memcmp(again.data(), db.data(), db.size() * sizeof(T)) == 0);
}

// One part and many, rows past a part's end, columns below and past a block's, in packs and not.
constexpr GradientSize gradient_sizes[] = {{1, 1},     {7, 3},     {1, 1000},  {65, 128}, {300, 10},
                                           {1031, 33}, {257, 132}, {20011, 1}, {4099, 8}};

TEST_CASE("the gradient of a bias is the sum of each column, the same bits again") {
  for (const GradientSize size : gradient_sizes) check_sums<float>(DType::f32, size, 1e-6);
}

TEST_CASE("the gradient of a bias is summed in f32 where it is stored in 16 bits") {
  for (const GradientSize size : gradient_sizes) {
    check_sums<half>(DType::f16, size, 0x1p-11);
    check_sums<bfloat16>(DType::bf16, size, 0x1p-8);
  }
}

TEST_CASE("columns at an address that no pack may start at are summed one by one") {
  const std::vector<float> dy = random_elements<float>(1 + 100 * 64);
  std::vector<float> aligned(dy.begin() + 1, dy.end());
  const std::vector<float> expected = computed(DType::f32, aligned.data(), 100, 64, 0);
  const std::vector<float> db = computed(DType::f32, dy.data() + 1, 100, 64, 0);
  for (std::size_t i = 0; i < db.size(); ++i) CHECK(db[i] == Approx(expected[i]).margin(1e-5));
}

}  // namespace
}  // namespace trainer::cuda
