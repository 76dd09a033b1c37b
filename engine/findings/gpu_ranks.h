#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainer {

/// An entry of --gpu with a number behind it, "h100*4": the GPUs of ranks that follow each other.
struct GpuRanks {
  std::string gpu;
  std::int64_t num_ranks = 1;
};

/// Of entries that all have a number; none where no entry has one. Throws ConfigError where only some do, and where a
/// number cannot be.
std::vector<GpuRanks> read_gpu_ranks(const std::vector<std::string>& entries);

/// Whether "*4" stands behind a name.
bool has_number_of_ranks(const std::string& entry);

std::int64_t num_ranks_of(const std::vector<GpuRanks>& gpus);
/// As they were read: "h100*4,a100-80gb*4".
std::string gpu_ranks_text(const std::vector<GpuRanks>& gpus);

}  // namespace trainer
