#include "engine/cpu/packing_memory.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "engine/ops/linear.h"

namespace trainer {
namespace {

// Of oneDNN 2.6 for f32 with AVX2 (src/cpu/x64/gemm): blocks of columns, rows and the inner dimension, and the sum of
// 1 / rows and 1 / columns from which on nothing is packed.
constexpr std::int64_t block_columns = 10000, block_rows = 384, block_depth = 256, least_depth = 128;
constexpr double least_packed = 0.0038;

struct ProductSize {
  std::int64_t rows = 0, columns = 0, depth = 0;  ///< row-major: (rows, depth) · (depth, columns)
};

ProductSize size_of_product(const Op& op) {
  switch (op.kind) {
    case OpKind::linear:
      return {op.outputs[0].num_elements() / op.outputs[0].shape[-1], op.outputs[0].shape[-1], op.inputs[0].shape[-1]};
    case OpKind::linear_backward_input:
      return {op.inputs[0].num_elements() / op.inputs[0].shape[-1], op.outputs[0].shape[-1], op.inputs[0].shape[-1]};
    case OpKind::linear_backward_weight:
      return {op.inputs[0].shape[-1], op.inputs[1].shape[-1], op.inputs[0].num_elements() / op.inputs[0].shape[-1]};
    default:
      return {};
  }
}

}  // namespace

std::int64_t packing_bytes(const Op& op, int num_threads) {
  const ProductSize size = size_of_product(op);
  if (size.rows == 0 || size.columns == 0 || __builtin_cpu_supports("avx512f") != 0) return 0;
  if (1.0 / static_cast<double>(size.rows) + 1.0 / static_cast<double>(size.columns) >= least_packed) return 0;
  // A thread takes a part of the columns, or, where there are more of them, of the rows.
  const bool divides_columns = size.columns >= size.rows;
  const std::int64_t columns = divides_columns ? (size.columns + num_threads - 1) / num_threads : size.columns;
  const std::int64_t depth = std::clamp(size.depth, least_depth, block_depth);
  const std::int64_t elements = depth * (std::min(columns, block_columns) + std::min(size.rows, block_rows));
  return num_threads * elements * static_cast<std::int64_t>(sizeof(float));
}

}  // namespace trainer

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

// Instead of libc's, for the libraries of this program too: Note [Packed operands]. A program may have yet another.
// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name)
extern "C" __attribute__((weak)) int posix_memalign(void** address, std::size_t alignment,
                                                    std::size_t num_bytes) noexcept {
  if (alignment % sizeof(void*) != 0 || alignment == 0 || (alignment & (alignment - 1)) != 0) return EINVAL;
  constexpr std::size_t large = std::size_t{128} << 10;
  const int before = errno;
  void* const block =
      std::aligned_alloc(num_bytes >= large ? std::max(alignment, trainer::packing_alignment) : alignment, num_bytes);
  errno = before;
  if (block == nullptr && num_bytes > 0) return ENOMEM;
  *address = block;
  return 0;
}

#endif
