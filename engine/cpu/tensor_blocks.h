#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/shape.h"

namespace trainer {

/// Elements [begin, end) of one of many tensors: what a thread works on at a time, whatever the tensors' sizes.
struct TensorBlock {
  std::size_t tensor = 0;
  std::int64_t begin = 0, end = 0;
};

inline constexpr std::int64_t tensor_block_elements = 1 << 14;

inline std::int64_t num_tensor_blocks(const TensorType& type) {
  return (type.num_elements() + tensor_block_elements - 1) / tensor_block_elements;
}

inline void append_tensor_blocks(const TensorType& type, std::size_t tensor, std::vector<TensorBlock>& blocks) {
  const std::int64_t count = type.num_elements();
  for (std::int64_t begin = 0; begin < count; begin += tensor_block_elements)
    blocks.push_back({tensor, begin, std::min(count, begin + tensor_block_elements)});
}

}  // namespace trainer
