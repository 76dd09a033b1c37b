#include <algorithm>

#include "cuda/kernels/bias_gradient.h"
#include "cuda/library/matmul.h"
#include "engine/memory/rounding.h"

namespace trainer::cuda {

// Note [Scratch of a product]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Scratch lets the library split a product over k: parts of the sum are computed by more blocks, kept in f32, and added
// by a second pass, always in the same order. That pays where C alone has too few tiles to fill a GPU and each part
// keeps a long enough sum. So there is room for as many copies of C as
//   - leave each part a sum of 128 or more,
//   - make no more than 256 tiles of 128 × 128 altogether, about two for each multiprocessor of the largest GPU,
//   - and are no more than 16,
// none where that is less than two. It follows that no product asks for more than 256 tiles, 16 MiB. 64 KiB come on
// top wherever there is work for more than a tile, for the counters and flags that kernels keep there.
// A bias gradient that the library does not fuse is summed behind the product, in the same scratch. Whether it fuses is
// known on the GPU alone, so there is always room for those sums.
namespace {

std::int64_t product_workspace_bytes(const MatmulCall& call) {
  constexpr std::int64_t tile = 128, min_sum = 128, max_tiles = 256, max_copies = 16, counters = 64 << 10;
  const std::int64_t num_tiles = ((call.m + tile - 1) / tile) * ((call.n + tile - 1) / tile);
  if (num_tiles <= 1 && call.k < 2 * min_sum) return 0;
  const std::int64_t copies =
      std::min({call.k / min_sum, max_tiles / std::max(num_tiles, std::int64_t{1}), max_copies});
  if (copies < 2) return counters;
  return counters + copies * call.m * call.n * static_cast<std::int64_t>(sizeof(float));
}

}  // namespace

std::int64_t matmul_workspace_bytes(const MatmulCall& call) {
  std::int64_t bytes = product_workspace_bytes(call);
  if (call.epilogue == Epilogue::bias_gradient_a)
    bytes = std::max(bytes, bias_gradient_workspace_bytes(call.k, call.m));
  return round_up(bytes, least_block_bytes);
}

}  // namespace trainer::cuda
