// Note [Kernels on the host] in cuda/launch/launch.h: that a kernel which is right runs right on the host, and that one
// which is wrong is caught.

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "cuda/kernels/element.h"
#include "cuda/kernels/reduce.cuh"
#include "engine/errors.h"

namespace trainer::cuda {
namespace {

using Catch::Contains;

std::vector<float> counted(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

// ---- Grids ----------------------------------------------------------------------------------------------------------

__global__ void count_visits_kernel(int* visits, Dim3* sizes) {
  wait_for_earlier_kernels();
  const std::int64_t block = (std::int64_t{blockIdx.z} * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const std::int64_t thread = (std::int64_t{threadIdx.z} * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  visits[block * (blockDim.x * blockDim.y * blockDim.z) + thread] += 1;
  sizes[0] = gridDim;
  sizes[1] = blockDim;
}

TEST_CASE("every thread of a three-dimensional grid of three-dimensional blocks runs once") {
  std::vector<int> visits(3 * 5 * 2 * 7 * 3 * 2);
  std::vector<Dim3> sizes(2);
  launch(count_visits_kernel, {3, 5, 2}, {7, 3, 2}, nullptr, visits.data(), sizes.data());
  CHECK(visits == std::vector<int>(visits.size(), 1));
  CHECK((sizes[0].x == 3 && sizes[0].y == 5 && sizes[0].z == 2));
  CHECK((sizes[1].x == 7 && sizes[1].y == 3 && sizes[1].z == 2));
}

TEST_CASE("a launch of no blocks does nothing") {
  launch(count_visits_kernel, {0, 5, 2}, {7, 3, 2}, nullptr, nullptr, nullptr);
  launch(count_visits_kernel, {1, 0, 2}, {7, 3, 2}, nullptr, nullptr, nullptr);
  launch(count_visits_kernel, {1, 1, 0}, {7, 3, 2}, nullptr, nullptr, nullptr);
}

TEST_CASE("a grid or a block that CUDA refuses is refused") {
  const auto start = [](Dim3 grid, Dim3 block) { launch(count_visits_kernel, grid, block, nullptr, nullptr, nullptr); };
  CHECK_THROWS_AS(start({1}, {1025}), InternalError);
  CHECK_THROWS_AS(start({1}, {0}), InternalError);
  CHECK_THROWS_AS(start({1}, {2, 2, 65}), InternalError);
  CHECK_THROWS_AS(start({1, 65536}, {32}), InternalError);
  CHECK_THROWS_AS(start({1, 1, 65536}, {32}), InternalError);
}

// ---- Barriers and shared arrays -------------------------------------------------------------------------------------

template <int threads>
__global__ void reverse_kernel(float* x) {
  wait_for_earlier_kernels();
  TRAINER_SHARED(float, values, threads);
  float* const of_block = x + std::int64_t{blockIdx.x} * threads;
  values[threadIdx.x] = of_block[threadIdx.x];
  __syncthreads();
  of_block[threadIdx.x] = values[threads - 1 - threadIdx.x];
}

TEST_CASE("threads read behind a barrier what others wrote before it") {
  std::vector<float> x = counted(3 * 97);
  launch(reverse_kernel<97>, {3}, {97}, nullptr, x.data());
  for (std::size_t block = 0; block < 3; ++block) {
    for (std::size_t i = 0; i < 97; ++i) REQUIRE(x[block * 97 + i] == static_cast<float>(block * 97 + 97 - i));
  }
}

__global__ void prefix_sum_kernel(int* x) {
  wait_for_earlier_kernels();
  TRAINER_SHARED(int, sums, 1024);
  const int thread = static_cast<int>(threadIdx.x);
  sums[thread] = x[thread];
  for (int step = 1; step < static_cast<int>(blockDim.x); step *= 2) {
    __syncthreads();
    const int before = thread >= step ? sums[thread - step] : 0;
    __syncthreads();
    sums[thread] += before;
  }
  x[thread] = sums[thread];
}

TEST_CASE("barriers in a loop keep the passes of a scan apart") {
  for (const unsigned threads : {1u, 2u, 31u, 257u, 1024u}) {
    std::vector<int> x(threads, 1);
    launch(prefix_sum_kernel, {1}, {threads}, nullptr, x.data());
    std::vector<int> expected(threads);
    std::iota(expected.begin(), expected.end(), 1);
    CHECK(x == expected);
  }
}

__global__ void read_unwritten_kernel(float* x, int* y) {
  wait_for_earlier_kernels();
  TRAINER_SHARED(float, numbers, 4);
  TRAINER_SHARED(int, integers, 4);
  x[blockIdx.x] = numbers[3];
  y[blockIdx.x] = integers[0];
  numbers[3] = 1;
  integers[0] = 2;
}

TEST_CASE("a shared array is poisoned again for every block") {
  std::vector<float> x(3);
  std::vector<int> y(3);
  launch(read_unwritten_kernel, {3}, {1}, nullptr, x.data(), y.data());
  for (std::size_t block = 0; block < 3; ++block) {
    CHECK(std::isnan(x[block]));
    CHECK(y[block] == -1);
  }
}

template <bool barriers>
__global__ void rotate_kernel(float* x) {
  wait_for_earlier_kernels();
  TRAINER_SHARED(float, values, 64);
  values[threadIdx.x] = x[threadIdx.x];
  if (barriers) __syncthreads();
  const float before = values[(threadIdx.x + 63) % 64];
  const float after = values[(threadIdx.x + 1) % 64];
  x[threadIdx.x] = before + after;
}

TEST_CASE("a missing barrier shows") {
  std::vector<float> right = counted(64), wrong = right;
  launch(rotate_kernel<true>, {1}, {64}, nullptr, right.data());
  launch(rotate_kernel<false>, {1}, {64}, nullptr, wrong.data());
  CHECK(right[1] == 4);
  CHECK(std::isnan(wrong[1]));
}

// ---- Shuffles and reductions ----------------------------------------------------------------------------------------

__global__ void shuffle_kernel(const float* x, float* by_xor, float* down, float* from_lane) {
  wait_for_earlier_kernels();
  const int thread = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  by_xor[thread] = shuffle_xor(x[thread], 5);
  down[thread] = shuffle_down(x[thread], 3);
  from_lane[thread] = shuffle(x[thread], thread * 7);
}

TEST_CASE("shuffles take the value of the lane they name, within their own warp") {
  // Two-dimensional, so that a warp spans rows.
  std::vector<float> x = counted(96), by_xor(96), down(96), from_lane(96);
  launch(shuffle_kernel, {1}, {8, 12}, nullptr, x.data(), by_xor.data(), down.data(), from_lane.data());
  for (int thread = 0; thread < 96; ++thread) {
    const int warp = thread / 32 * 32, lane = thread % 32;
    const auto at = static_cast<std::size_t>(thread);
    REQUIRE(by_xor[at] == static_cast<float>(warp + (lane ^ 5) + 1));
    REQUIRE(down[at] == static_cast<float>(warp + (lane + 3 < 32 ? lane + 3 : lane) + 1));
    REQUIRE(from_lane[at] == static_cast<float>(warp + thread * 7 % 32 + 1));
  }
}

TEST_CASE("a value from a lane that does not exist is poison") {
  std::vector<float> x = counted(6), by_xor(6), down(6), from_lane(6);
  launch(shuffle_kernel, {1}, {6}, nullptr, x.data(), by_xor.data(), down.data(), from_lane.data());
  CHECK(by_xor[0] == 6);
  CHECK(std::isnan(by_xor[2]));
  CHECK(down[2] == 6);
  CHECK(std::isnan(down[3]));
}

template <int threads, typename T>
__global__ void reduce_kernel(const T* x, T* sums, T* maxima) {
  wait_for_earlier_kernels();
  const T value = x[std::int64_t{blockIdx.x} * threads + threadIdx.x];
  // Twice, so that the second call meets what the first one left.
  for (int round = 0; round < 2; ++round) {
    sums[std::int64_t{blockIdx.x} * threads + threadIdx.x] = block_sum<threads>(value);
    maxima[std::int64_t{blockIdx.x} * threads + threadIdx.x] = block_max<threads>(value);
  }
}

template <int threads, typename T>
void check_reductions() {
  CAPTURE(threads, sizeof(T));
  const std::size_t num_values = 2 * threads;
  std::vector<T> x(num_values), sums(num_values), maxima(num_values);
  for (std::size_t i = 0; i < num_values; ++i) x[i] = static_cast<T>(static_cast<int>(i * 37 % 101) - 90);
  launch(reduce_kernel<threads, T>, {2}, {threads}, nullptr, x.data(), sums.data(), maxima.data());
  for (std::size_t block = 0; block < 2; ++block) {
    const auto first = x.begin() + static_cast<std::ptrdiff_t>(block * threads), end = first + threads;
    const T sum = std::accumulate(first, end, T(0));
    const T maximum = *std::max_element(first, end);
    for (std::size_t i = block * threads; i < (block + 1) * threads; ++i) {
      REQUIRE(sums[i] == sum);
      REQUIRE(maxima[i] == maximum);
    }
  }
}

TEST_CASE("every thread of a block gets the sum and the maximum of the block") {
  check_reductions<32, float>();
  check_reductions<64, double>();
  check_reductions<256, float>();
  check_reductions<1024, float>();
  check_reductions<1024, double>();
}

TEST_CASE("a maximum among which is a NaN is NaN, wherever it stands") {
  for (const std::size_t position : {0u, 31u, 32u, 255u}) {
    std::vector<float> x(256, 1.0f), sums(256), maxima(256);
    x[position] = std::nanf("");
    launch(reduce_kernel<256, float>, {1}, {256}, nullptr, x.data(), sums.data(), maxima.data());
    for (const float value : maxima) REQUIRE(std::isnan(value));
  }
}

__global__ void count_kernel(int* count, std::int64_t* wide, int* last) {
  wait_for_earlier_kernels();
  atomic_add(wide, -(std::int64_t{1} << 40));
  thread_fence();
  const int before = atomic_add(count, 1);
  if (before == static_cast<int>(gridDim.x * blockDim.x) - 1) *last += 1;
}

TEST_CASE("atomic additions return what was there before") {
  int count = 0, last = 0;
  std::int64_t wide = 7;
  launch(count_kernel, {5}, {33}, nullptr, &count, &wide, &last);
  CHECK(count == 165);
  CHECK(wide == 7 - 165 * (std::int64_t{1} << 40));
  CHECK(last == 1);
}

// ---- Mistakes -------------------------------------------------------------------------------------------------------

__global__ void some_end_kernel(unsigned threads) {
  wait_for_earlier_kernels();
  if (threadIdx.x < threads) __syncthreads();
}
__global__ void different_barriers_kernel() {
  wait_for_earlier_kernels();
  if (threadIdx.x % 2 == 0) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}
__global__ void barrier_beside_shuffle_kernel(float* x) {
  wait_for_earlier_kernels();
  if (threadIdx.x == 5) {
    __syncthreads();
  } else {
    x[threadIdx.x] = shuffle_xor(x[threadIdx.x], 1);
    __syncthreads();
  }
}
__global__ void different_shuffles_kernel(float* x) {
  wait_for_earlier_kernels();
  if (threadIdx.x % 2 == 0) {
    x[threadIdx.x] = shuffle_xor(x[threadIdx.x], 1);
  } else {
    x[threadIdx.x] = shuffle_xor(x[threadIdx.x], 1);
  }
}
__global__ void shuffle_of_the_living_kernel(float* x) {
  wait_for_earlier_kernels();
  if (threadIdx.x >= 40) return;
  x[threadIdx.x] = shuffle_down(x[threadIdx.x], 1);
}

TEST_CASE("threads that end while others wait at a barrier are a mistake") {
  const std::string message = "threads of a block have ended while others wait at a barrier";
  for (const unsigned threads : {1u, 31u, 95u}) {
    CHECK_THROWS_WITH(launch(some_end_kernel, {2}, {96}, nullptr, threads), Contains(message));
  }
  CHECK_THROWS_WITH(launch(some_end_kernel, {1}, {2}, nullptr, 1), Contains("host_launch_test.cpp:"));
  launch(some_end_kernel, {2}, {96}, nullptr, 0);
  launch(some_end_kernel, {2}, {96}, nullptr, 96);
}

TEST_CASE("threads at different barriers are a mistake") {
  CHECK_THROWS_WITH(launch(different_barriers_kernel, {1}, {64}, nullptr),
                    Contains("threads of a block wait at different barriers"));
}

TEST_CASE("a shuffle that a living thread of the warp is not at is a mistake") {
  const std::string message = "a shuffle that not all living threads of a warp take part in";
  std::vector<float> x = counted(64);
  CHECK_THROWS_WITH(launch(barrier_beside_shuffle_kernel, {1}, {64}, nullptr, x.data()), Contains(message));
  CHECK_THROWS_WITH(launch(different_shuffles_kernel, {1}, {32}, nullptr, x.data()), Contains(message));
}

TEST_CASE("the living threads of a warp shuffle among themselves, and get poison from the others") {
  std::vector<float> x = counted(64);
  launch(shuffle_of_the_living_kernel, {1}, {64}, nullptr, x.data());
  CHECK(x[30] == 32);
  CHECK(x[38] == 40);
  CHECK(std::isnan(x[39]));
}

struct CountedObject {
  explicit CountedObject(int* count) : alive(count) { ++*alive; }
  ~CountedObject() { --*alive; }
  int* alive;
};
__global__ void throwing_kernel(int* alive, unsigned thrower, int barriers) {
  wait_for_earlier_kernels();
  const CountedObject object(alive);
  for (int i = 0; i < barriers; ++i) __syncthreads();
  if (threadIdx.x == thrower) throw std::runtime_error("the thread's own");
  __syncthreads();
}

TEST_CASE("a thread's exception ends the launch, unwinds the threads that wait, and leaves the next launch whole") {
  for (const unsigned thrower : {0u, 17u, 66u}) {
    for (const int barriers : {0, 3}) {
      int alive = 0;
      CHECK_THROWS_WITH(launch(throwing_kernel, {4}, {67}, nullptr, &alive, thrower, barriers), "the thread's own");
      CHECK(alive == 0);
      std::vector<float> x = counted(97);
      launch(reverse_kernel<97>, {1}, {97}, nullptr, x.data());
      CHECK(x[0] == 97);
    }
  }
}

__global__ void forgetful_kernel(unsigned thread, unsigned block) {
  if (threadIdx.x == thread && blockIdx.x == block) return;
  wait_for_earlier_kernels();
}

TEST_CASE("a thread that ends without having waited for earlier kernels is a mistake") {
  const std::string message = "a kernel's thread has ended without wait_for_earlier_kernels()";
  for (const unsigned thread : {0u, 40u, 69u})
    CHECK_THROWS_WITH(launch(forgetful_kernel, {3}, {70}, nullptr, thread, 2), Contains(message));
  launch(forgetful_kernel, {3}, {70}, nullptr, 70, 0);
}

__global__ void nested_kernel() {
  wait_for_earlier_kernels();
  launch(some_end_kernel, {1}, {1}, nullptr, 0);
}

TEST_CASE("a kernel starts no kernel, and what belongs to a block is refused outside of one") {
  CHECK_THROWS_AS(launch(nested_kernel, {1}, {1}, nullptr), InternalError);
  CHECK_THROWS_AS(__syncthreads(), InternalError);
  CHECK_THROWS_AS(shuffle_xor(1, 1), InternalError);
  CHECK_THROWS_AS(wait_for_earlier_kernels(), InternalError);
}

}  // namespace
}  // namespace trainer::cuda
