#include "engine/cpu/rank_sum.h"

#include <algorithm>
#include <array>
#include <bit>
#include <type_traits>

#include "engine/cpu/parallel.h"
#include "engine/half.h"
#include "engine/simd.h"

namespace trainer {

namespace {

constexpr std::int64_t sum_block = 256;

template <typename Sum>
TRAINER_SIMD void add_block(Sum* to, const Sum* from, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) to[i] += from[i];
}

/// Adds up in the order of Note [Sums over ranks], a block at a time: sums of 2^k ranks that wait for their neighbours
/// lie one behind the other.
template <typename Sum>
class RankSum {
 public:
  /// Takes the numbers of the next rank, which `fill` writes.
  template <typename Fill>
  void add(std::int64_t count, Fill&& fill) {
    fill(blocks_[static_cast<std::size_t>(std::popcount(num_ranks_))].data());
    for (std::uint32_t k = 1; (num_ranks_ & k) != 0; k <<= 1U) merge(count, num_ranks_ & ~(k - 1));
    ++num_ranks_;
  }
  const Sum* finish(std::int64_t count) {
    for (std::uint32_t left = num_ranks_; std::popcount(left) > 1; left &= left - 1) merge(count, left & (left - 1));
    num_ranks_ = 0;
    return blocks_[0].data();
  }

 private:
  /// The last of the sums that wait goes into the one before it, of which `before` tells by its bits where it stands.
  void merge(std::int64_t count, std::uint32_t before) {
    const auto at = static_cast<std::size_t>(std::popcount(before));
    add_block(blocks_[at - 1].data(), blocks_[at].data(), count);
  }

  std::uint32_t num_ranks_ = 0;
  static constexpr std::size_t most_waiting = 21;  // of 2^20 ranks

  std::array<std::array<Sum, sum_block>, most_waiting> blocks_;
};

template <typename Sum>
void read_block(DType type, const std::byte* from, Sum* to, std::int64_t count) {
  if constexpr (std::is_same_v<Sum, float>)
    widen(type, from, to, count);
  else
    std::copy_n(reinterpret_cast<const Sum*>(from), count, to);
}

template <typename Sum>
void sum_numbers(int num_threads, DType type, std::span<const std::byte* const> addends, std::byte* sum,
                 std::int64_t count, bool adds) {
  const auto size = static_cast<std::int64_t>(size_of(type));
  parallel_elements(num_threads, count, [&](std::int64_t first, std::int64_t end) {
    RankSum<Sum> sums;
    std::array<Sum, sum_block> held;
    for (std::int64_t at = first; at < end; at += sum_block) {
      const std::int64_t block = std::min(sum_block, end - at);
      for (const std::byte* const addend : addends)
        sums.add(block, [&](Sum* to) { read_block(type, addend + at * size, to, block); });
      const Sum* all = sums.finish(block);
      if (adds) {
        read_block(type, sum + at * size, held.data(), block);
        add_block(held.data(), all, block);
        all = held.data();
      }
      if constexpr (std::is_same_v<Sum, float>)
        narrow(type, all, sum + at * size, block);
      else
        std::copy_n(all, block, reinterpret_cast<Sum*>(sum) + at);
    }
  });
}

}  // namespace

void sum_over_ranks(int num_threads, DType type, std::span<const std::byte* const> addends, std::byte* sum,
                    std::int64_t count, bool adds) {
  if (type == DType::f64) return sum_numbers<double>(num_threads, type, addends, sum, count, adds);
  if (type == DType::i64) return sum_numbers<std::int64_t>(num_threads, type, addends, sum, count, adds);
  sum_numbers<float>(num_threads, type, addends, sum, count, adds);
}

}  // namespace trainer
