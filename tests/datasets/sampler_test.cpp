#include "datasets/sampler.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <numeric>
#include <set>

using namespace trainer;

namespace {

std::vector<std::uint32_t> order(const SamplerOptions& options, std::int64_t epoch) {
  std::vector<std::uint32_t> result;
  Sampler(options).order_of_epoch(epoch, result);
  return result;
}

}  // namespace

TEST_CASE("An epoch is a permutation that depends on seed and epoch alone") {
  for (const std::int64_t num_samples : {1, 2, 7, 1000}) {
    SamplerOptions options{num_samples, 3, true, false, 42};
    auto first = order(options, 5);
    options.batch_size = 8;
    CHECK(order(options, 5) == first);
    if (num_samples == 1000) {
      CHECK(order(options, 6) != first);
      options.seed = 43;
      CHECK(order(options, 5) != first);
    }
    std::sort(first.begin(), first.end());
    std::vector<std::uint32_t> identity(static_cast<std::size_t>(num_samples));
    std::iota(identity.begin(), identity.end(), 0U);
    CHECK(first == identity);
  }
}

TEST_CASE("Every order of few samples is about equally frequent") {
  std::array<int, 27> counts{};
  constexpr int num_epochs = 6000;
  for (int epoch = 0; epoch < num_epochs; ++epoch) {
    const auto one = order({3, 1, true, false, 1}, epoch);
    ++counts[one[0] * 9 + one[1] * 3 + one[2]];
  }
  int num_orders = 0;
  for (const int count : counts) {
    if (count == 0) continue;
    ++num_orders;
    CHECK(count == Approx(num_epochs / 6).margin(150));  // five standard deviations
  }
  CHECK(num_orders == 6);
}

TEST_CASE("Without shuffling the samples come in order") {
  CHECK(order({4, 2, false, false, 1}, 3) == std::vector<std::uint32_t>{0, 1, 2, 3});
}

TEST_CASE("The odd last batch holds the remainder, or is dropped") {
  const Sampler keeps({10, 4, false, false, 1});
  CHECK(keeps.num_batches() == 3);
  CHECK(keeps.size_of_batch(1) == 4);
  CHECK(keeps.size_of_batch(2) == 2);
  CHECK(keeps.begin_of_batch(2) == 8);
  CHECK(Sampler({10, 4, false, true, 1}).num_batches() == 2);
  const Sampler even({8, 4, false, false, 1});
  CHECK(even.num_batches() == 2);
  CHECK(even.size_of_batch(1) == 4);
  CHECK(Sampler({0, 4, false, false, 1}).num_batches() == 0);
}

TEST_CASE("A batch larger than the data is all of it, unless that would be dropped") {
  const Sampler all({10, 64, false, false, 1});
  CHECK(all.batch_size() == 10);
  CHECK(all.num_batches() == 1);
  CHECK_THROWS_WITH(Sampler({10, 64, false, true, 1}), Catch::Contains("data.drop_last leaves no batch"));
  CHECK(Sampler({10, 10, false, true, 1}).num_batches() == 1);
}

TEST_CASE("A window keeps near what lies near, in another order each epoch") {
  constexpr std::int64_t count = 1003, window = 40;
  const Sampler sampler({.num_samples = count, .batch_size = 10, .shuffle = true, .seed = 3, .shuffle_window = window});
  std::vector<std::uint32_t> first, again, other;
  sampler.order_of_epoch(0, first);
  sampler.order_of_epoch(1, other);
  sampler.order_of_epoch(0, again);
  CHECK(first == again);
  CHECK(first != other);
  std::vector<std::uint32_t> sorted = first;
  std::sort(sorted.begin(), sorted.end());
  for (std::uint32_t i = 0; i < count; ++i) CHECK(sorted[i] == i);
  // Of each window but those about the short stretch, four stretches of ten.
  std::int64_t num_in_order = 0;
  for (std::size_t begin = 0; begin + window <= first.size(); begin += window) {
    std::set<std::uint32_t> stretches;
    for (std::size_t i = begin; i < begin + window; ++i) stretches.insert(first[i] / 10);
    CHECK(stretches.size() <= 6);
    for (std::size_t i = begin + 1; i < begin + window; ++i) num_in_order += first[i] == first[i - 1] + 1 ? 1 : 0;
  }
  CHECK(num_in_order < 60);  // of a thousand: within a window nothing follows its neighbour more often than by chance

  // A window of all samples is a full shuffle.
  std::vector<std::uint32_t> all, full;
  Sampler({.num_samples = 50, .batch_size = 10, .shuffle = true, .seed = 3, .shuffle_window = 50})
      .order_of_epoch(0, all);
  Sampler({.num_samples = 50, .batch_size = 10, .shuffle = true, .seed = 3}).order_of_epoch(0, full);
  CHECK(all == full);
}
