#pragma once
// Many tensors in one launch: a table of them travels with the launch's arguments, and each block finds the tensor and
// the chunk of it that are its own. A kernel takes a small table, which costs a launch nothing, or a large one: the
// arguments of a launch hold 4 KiB on every GPU, and 32 KiB from compute capability 7.0 on, the least that CUDA 13
// builds for. More tensors than the large one holds take more launches.

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>

#include "cuda/kernels/element.h"

namespace trainer::cuda {

inline constexpr int table_threads = 256;
/// Elements of a block: 16 for each thread, so that few tensors too occupy many blocks.
inline constexpr std::int64_t chunk_elements = 4096;

inline constexpr int small_table = 64;
template <int num_addresses>
inline constexpr int large_table = num_addresses <= 4 ? 640 : 512;

/// `num_addresses` arrays of each tensor, all with its count of elements.
template <int num_addresses, int capacity>
struct TensorTable {
  void* addresses[num_addresses][capacity];
  std::int64_t counts[capacity];
  std::int32_t first_blocks[capacity];  ///< of the launch, at which a tensor's chunks begin
  std::uint32_t tags[capacity];         ///< a number of the caller's
  int num_tensors;
};
static_assert(sizeof(TensorTable<5, small_table>) < 3700 && sizeof(TensorTable<4, large_table<4>>) < 32000 &&
              sizeof(TensorTable<5, large_table<5>>) < 32000);

/// The block's part of a tensor.
struct TensorChunk {
  int tensor;
  std::int64_t begin, end;
};

template <int num_addresses, int capacity>
__device__ __forceinline__ TensorChunk chunk_of_block(const TensorTable<num_addresses, capacity>& table) {
  const int block = static_cast<int>(blockIdx.x);
  int low = 0, high = table.num_tensors - 1;  // the last tensor whose chunks begin at the block or before it
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (table.first_blocks[middle] <= block) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  const std::int64_t count = table.counts[low];
  const std::int64_t begin = (block - table.first_blocks[low]) * chunk_elements;
  return {low, begin, begin + chunk_elements < count ? begin + chunk_elements : count};
}

/// Calls visit(std::integral_constant<int, n>{}, at) for all of the chunk's elements: n = 4 from `at` on, or 1, where
/// an array is not `aligned` to 16 bytes or the tensor ends.
template <typename Visit>
__device__ __forceinline__ void for_each_element(const TensorChunk& chunk, bool aligned, Visit&& visit) {
  constexpr int width = 4;
  std::int64_t packed_end = chunk.begin;
  if (aligned) packed_end += (chunk.end - chunk.begin) / width * width;
  for (std::int64_t at = chunk.begin + std::int64_t{threadIdx.x} * width; at < packed_end;
       at += table_threads * width) {
    visit(std::integral_constant<int, width>{}, at);
  }
  for (std::int64_t at = packed_end + threadIdx.x; at < chunk.end; at += table_threads) {
    visit(std::integral_constant<int, 1>{}, at);
  }
}

/// What a launch has of one tensor.
template <int num_addresses>
struct TableEntry {
  std::array<void*, num_addresses> addresses;
  std::int64_t count;
  std::uint32_t tag = 0;
};

template <int capacity, int num_addresses, typename Entries, typename Start>
void start_with_capacity(std::int64_t num_tensors, const Entries& entry_of, const Start& start) {
  for (std::int64_t begin = 0; begin < num_tensors; begin += capacity) {
    TensorTable<num_addresses, capacity> table;
    table.num_tensors = static_cast<int>(std::min<std::int64_t>(capacity, num_tensors - begin));
    std::int64_t blocks = 0;
    for (int i = 0; i < table.num_tensors; ++i) {
      const TableEntry<num_addresses> entry = entry_of(begin + i);
      for (int a = 0; a < num_addresses; ++a) table.addresses[a][i] = entry.addresses[static_cast<std::size_t>(a)];
      table.counts[i] = entry.count;
      table.tags[i] = entry.tag;
      table.first_blocks[i] = static_cast<std::int32_t>(blocks);
      blocks += num_blocks(table.counts[i], chunk_elements);
      require_internal(blocks <= 0x7FFFFFFF, "the tensors of one launch have fewer than 2^31 chunks");
    }
    start(table, blocks);
  }
}

/// Cuts the tensors into launches and calls start(table, num_blocks) for each; entry_of(i) is tensor i. One without
/// elements has no block.
template <int num_addresses, typename Entries, typename Start>
void for_each_table(std::int64_t num_tensors, const Entries& entry_of, const Start& start) {
  if (num_tensors <= small_table) {
    start_with_capacity<small_table, num_addresses>(num_tensors, entry_of, start);
  } else {
    start_with_capacity<large_table<num_addresses>, num_addresses>(num_tensors, entry_of, start);
  }
}

}  // namespace trainer::cuda
