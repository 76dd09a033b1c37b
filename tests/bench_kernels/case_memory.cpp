#include "tests/bench_kernels/case_memory.h"

#include <algorithm>

#include "cuda/device/cuda_call.h"
#include "engine/errors.h"
#include "tests/kernel_cases/operand_content.h"

namespace trainer::cuda {
namespace {

// Numbers of a tile; larger operands repeat it. Another seed for each of a few operands that stand beside each other.
constexpr std::int64_t tile_elements = std::int64_t{1} << 20;
constexpr std::uint64_t num_seeds = 4;
constexpr int poison = 0xFF;

std::int64_t placed_bytes(const CaseOperand& operand) { return (operand.num_bytes() + 255) / 256 * 256; }

}  // namespace

CaseMemory::CaseMemory(std::int64_t num_bytes) : num_bytes_(num_bytes) {
  void* address = nullptr;
  require_cuda(cudaMalloc(&address, static_cast<std::size_t>(num_bytes)), "take memory to time kernels in");
  begin_ = static_cast<std::byte*>(address);
}

CaseMemory::~CaseMemory() { cudaFree(begin_); }

std::int64_t CaseMemory::set_bytes(const SizedCase& sized) {
  std::int64_t bytes = 0;
  for (const CaseOperand& operand : sized.operands) bytes += placed_bytes(operand);
  return bytes;
}

std::vector<std::vector<void*>> CaseMemory::place(const SizedCase& sized, std::int64_t num_sets, cudaStream_t stream) {
  const std::int64_t all_bytes = num_sets * set_bytes(sized);
  require_internal(all_bytes <= num_bytes_, "sets of operands fit the memory that they are placed in");
  require_cuda(cudaMemsetAsync(begin_, poison, static_cast<std::size_t>(all_bytes), stream), "poison memory");
  std::vector<std::vector<void*>> sets;
  std::byte* next = begin_;
  for (std::int64_t set = 0; set < num_sets; ++set) {
    std::vector<void*> addresses;
    for (const CaseOperand& operand : sized.operands) {
      if (operand.role == OperandRole::input || operand.role == OperandRole::modified)
        fill(operand, addresses.size(), next, stream);
      addresses.push_back(operand.count == 0 ? nullptr : next);
      next += placed_bytes(operand);
    }
    sets.push_back(std::move(addresses));
  }
  return sets;
}

void CaseMemory::fill(const CaseOperand& operand, std::uint64_t seed, std::byte* to, cudaStream_t stream) {
  const auto num_bytes = static_cast<std::size_t>(operand.num_bytes());
  const std::vector<std::byte>& from = operand.content.empty() ? tile(operand, seed) : operand.content;
  std::size_t filled = std::min(from.size(), num_bytes);
  require_cuda(cudaMemcpyAsync(to, from.data(), filled, cudaMemcpyHostToDevice, stream), "fill an operand");
  while (filled < num_bytes) {
    const std::size_t more = std::min(filled, num_bytes - filled);
    require_cuda(cudaMemcpyAsync(to + filled, to, more, cudaMemcpyDeviceToDevice, stream), "fill an operand");
    filled += more;
  }
}

const std::vector<std::byte>& CaseMemory::tile(const CaseOperand& operand, std::uint64_t seed) {
  const TileKey key{operand.type, operand.low, operand.high, seed % num_seeds};
  const auto found = tiles_.find(key);
  if (found != tiles_.end()) return found->second;
  CaseOperand whole = operand;
  whole.count = tile_elements;
  return tiles_.emplace(key, operand_content(whole, seed % num_seeds, tile_elements)).first->second;
}

}  // namespace trainer::cuda
