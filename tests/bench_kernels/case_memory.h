#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "tests/kernel_cases/kernel_case.h"

namespace trainer::cuda {

/// A piece of the device's memory in which one case after the other places its operands.
class CaseMemory {
 public:
  explicit CaseMemory(std::int64_t num_bytes);
  ~CaseMemory();
  CaseMemory(const CaseMemory&) = delete;
  CaseMemory& operator=(const CaseMemory&) = delete;

  std::int64_t num_bytes() const { return num_bytes_; }
  /// Of one set of a case's operands.
  static std::int64_t set_bytes(const SizedCase& sized);
  /// Addresses of `num_sets` sets, which fit, all bytes poisoned first, then inputs filled. Queued on `stream`.
  std::vector<std::vector<void*>> place(const SizedCase& sized, std::int64_t num_sets, cudaStream_t stream);
  std::byte* begin() const { return begin_; }

 private:
  using TileKey = std::tuple<DType, double, double, std::uint64_t>;

  void fill(const CaseOperand& operand, std::uint64_t seed, std::byte* to, cudaStream_t stream);
  const std::vector<std::byte>& tile(const CaseOperand& operand, std::uint64_t seed);

  std::byte* begin_ = nullptr;
  std::int64_t num_bytes_;
  std::map<TileKey, std::vector<std::byte>> tiles_;
};

}  // namespace trainer::cuda
