// Note [Products of a warp] in cuda/launch/tensor_cores.h: that fragments hold what it says, and that a mistake shows.

#include "cuda/launch/tensor_cores.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <vector>

#include "cuda/kernels/element.h"
#include "engine/errors.h"
#include "tests/cuda/kernel_tensor.h"

namespace trainer::cuda {
namespace {

template <typename T>
constexpr DType type_of_element = std::is_same_v<T, half> ? DType::f16 : DType::bf16;

/// c (rows, columns) += a (rows, 16) · b, by m · 16 rows and n · 16 columns. b is (columns, 16), or transposed
/// (16, columns).
template <typename T, int m, int n, bool transposed>
__global__ void tile_product_kernel(const T* a, const T* b, float* c) {
  wait_for_earlier_kernels();
  using PackOfEight = Pack<T, 8>;
  TRAINER_SHARED(PackOfEight, a_packs, m * 32);
  TRAINER_SHARED(PackOfEight, b_packs, n * 32);
  const int lane = static_cast<int>(threadIdx.x), low = lane / 8 % 2, high = lane / 16, in_matrix = lane % 8;
  for (int at = lane; at < m * 32; at += warp_size) copy_ahead(&a_packs[at], a + at * 8, true);
  for (int at = lane; at < n * 32; at += warp_size) copy_ahead(&b_packs[at], b + at * 8, true);
  end_copies();
  wait_for_copies<0>();
  __syncthreads();
  Fragment of_a[m], of_b[n];
  const void *a_rows[m], *b_rows[n];
  for (int i = 0; i < m; ++i) a_rows[i] = &a_packs[(i * 16 + low * 8 + in_matrix) * 2 + high];
  load_fragments(of_a, a_rows);
  if constexpr (transposed) {
    for (int j = 0; j < n; ++j) b_rows[j] = &b_packs[(low * 8 + in_matrix) * (2 * n) + 2 * j + high];
    load_transposed_fragments(of_b, b_rows);
  } else {
    for (int j = 0; j < n; ++j) b_rows[j] = &b_packs[(j * 16 + high * 8 + in_matrix) * 2 + low];
    load_fragments(of_b, b_rows);
  }
  FragmentSums sums[m][2 * n];
  const auto each_sum = [&](auto&& function) {
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < 2 * n; ++j)
        for (int at = 0; at < 4; ++at)
          function(sums[i][j].values[at],
                   c[(i * 16 + at / 2 * 8 + lane / 4) * (n * 16) + j * 8 + lane % 4 * 2 + at % 2]);
  };
  each_sum([](float& sum, const float& stored) { sum = stored; });
  multiply_add<T>(sums, of_a, of_b);
  each_sum([](const float& sum, float& stored) { stored = sum; });
}

template <typename T, int m, int n, bool transposed>
void check_tile_product() {
  CAPTURE(m, n, transposed);
  constexpr int rows = m * 16, columns = n * 16;
  const KernelTensor a(type_of_element<T>, random_numbers(rows * 16, 1)),
      b(type_of_element<T>, random_numbers(columns * 16, 2)), c(DType::f32, random_numbers(rows * columns, 3));
  const std::vector<double> a_numbers = a.values(), b_numbers = b.values();
  std::vector<double> expected = c.values();
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t column = 0; column < columns; ++column)
      for (std::size_t k = 0; k < 16; ++k)
        expected[row * columns + column] +=
            a_numbers[row * 16 + k] * b_numbers[transposed ? k * columns + column : column * 16 + k];
  launch(tile_product_kernel<T, m, n, transposed>, {1}, {warp_size}, nullptr, a.data<T>(), b.data<T>(),
         c.data<float>());
  CHECK(difference(c.values(), expected) < 1e-6);
}

TEST_CASE("a warp's product of fragments is that of the matrices that were loaded into them") {
  check_tile_product<half, 1, 1, false>();
  check_tile_product<half, 2, 3, false>();
  check_tile_product<half, 1, 4, true>();
  check_tile_product<bfloat16, 1, 1, true>();
  check_tile_product<bfloat16, 2, 2, true>();
  check_tile_product<bfloat16, 3, 1, false>();
}

__global__ void sums_as_fragment_kernel(const float* sums, float* c) {
  wait_for_earlier_kernels();
  using PackOfEight = Pack<half, 8>;
  TRAINER_SHARED(PackOfEight, identity, 32);
  const int lane = static_cast<int>(threadIdx.x);
  for (int f = 0; f < 8; ++f) {
    const int row = lane / 2, column = lane % 2 * 8 + f;
    identity[lane].values[f] = half(row == column ? 1.0f : 0.0f);
  }
  __syncthreads();
  FragmentSums of_neighbours[2], products[1][2] = {};
  const auto place = [&](int j, int at) { return (at / 2 * 8 + lane / 4) * 16 + j * 8 + lane % 4 * 2 + at % 2; };
  for (int j = 0; j < 2; ++j)
    for (int at = 0; at < 4; ++at) of_neighbours[j].values[at] = sums[place(j, at)];
  Fragment a[1], b[1];
  for (int word = 0; word < 4; ++word) {
    const float* const pair = of_neighbours[word / 2].values + word % 2 * 2;
    a[0].words[word] = pair_of<half>(pair[0], pair[1]);
  }
  const void* const rows[1] = {&identity[(lane / 8 % 2 * 8 + lane % 8) * 2 + lane / 16]};
  load_transposed_fragments(b, rows);
  multiply_add<half>(products, a, b);
  for (int j = 0; j < 2; ++j)
    for (int at = 0; at < 4; ++at) c[place(j, at)] = products[0][j].values[at];
}

TEST_CASE("sums of two neighbours are the left operand of the next product") {
  std::vector<float> sums(256), c(256);
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = static_cast<float>(i) - 100;  // exact in f16
  launch(sums_as_fragment_kernel, {1}, {warp_size}, nullptr, sums.data(), c.data());
  CHECK(c == sums);
}

template <int groups_left>
__global__ void copy_ahead_kernel(const float* from, float* first, float* second, float* third) {
  wait_for_earlier_kernels();
  using PackOfFour = Pack<float, 4>;
  TRAINER_SHARED(PackOfFour, packs, 3);
  copy_ahead(&packs[0], from, true);
  end_copies();
  copy_ahead(&packs[1], from + 4, true);
  copy_ahead(&packs[2], from + 4, false);
  end_copies();
  wait_for_copies<groups_left>();
  for (int i = 0; i < 4; ++i) {
    first[i] = packs[0].values[i];
    second[i] = packs[1].values[i];
    third[i] = packs[2].values[i];
  }
}

TEST_CASE("what is copied ahead is there behind the wait for its group, and poison before") {
  const KernelTensor from(DType::f32, random_numbers(8, 4));
  std::vector<float> first(4), second(4), third(4);
  launch(copy_ahead_kernel<0>, {1}, {1}, nullptr, from.data<float>(), first.data(), second.data(), third.data());
  CHECK(first == std::vector<float>(from.data<float>(), from.data<float>() + 4));
  CHECK(second == std::vector<float>(from.data<float>() + 4, from.data<float>() + 8));
  CHECK(third == std::vector<float>(4, 0.0f));
  launch(copy_ahead_kernel<1>, {1}, {1}, nullptr, from.data<float>(), first.data(), second.data(), third.data());
  CHECK(first == std::vector<float>(from.data<float>(), from.data<float>() + 4));
  CHECK(std::isnan(second[0]));
  CHECK(std::isnan(third[3]));
  launch(copy_ahead_kernel<2>, {1}, {1}, nullptr, from.data<float>(), first.data(), second.data(), third.data());
  CHECK(std::isnan(first[0]));
}

__global__ void misaligned_kernel(int offset) {
  wait_for_earlier_kernels();
  using PackOfEight = Pack<half, 8>;
  TRAINER_SHARED(PackOfEight, packs, 2);
  Fragment fragments[1];
  const void* const rows[1] = {packs[0].values + offset};
  load_fragments(fragments, rows);
}
__global__ void products_of_some_kernel(unsigned threads) {
  wait_for_earlier_kernels();
  if (threadIdx.x >= threads) return;
  FragmentSums sums[1][2] = {};
  const Fragment a[1] = {}, b[1] = {};
  multiply_add<half>(sums, a, b);
}

TEST_CASE("rows that are not aligned, and a product that lanes of a warp are missing from, are mistakes") {
  launch(misaligned_kernel, {1}, {warp_size}, nullptr, 8);
  CHECK_THROWS_AS(launch(misaligned_kernel, {1}, {warp_size}, nullptr, 1), InternalError);
  launch(products_of_some_kernel, {1}, {96}, nullptr, 64);
  CHECK_THROWS_AS(launch(products_of_some_kernel, {1}, {64}, nullptr, 63), InternalError);
  CHECK_THROWS_AS(launch(products_of_some_kernel, {1}, {16}, nullptr, 16), InternalError);
}

}  // namespace
}  // namespace trainer::cuda
