#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trainer {

/// A GPU as a file describes it: what a plan must know of one that is not here. Keys in comments are the YAML's.
struct GpuProfile {
  std::string path;            ///< the file it was read from
  std::string name;            ///< as NVIDIA's tools call it: "NVIDIA H200"
  int compute_capability = 0;  ///< 90 for 9.0
  int num_multiprocessors = 0;
  std::int64_t total_bytes = 0;         ///< memory.total: what nvidia-smi shows
  std::int64_t usable_bytes = 0;        ///< memory.usable: what CUDA tells a process, the driver's own share taken off
  std::int64_t bandwidth = 0;           ///< memory.bandwidth, bytes a second
  std::int64_t context_bytes = 0;       ///< outside_allocator.context
  std::int64_t library_bytes = 0;       ///< outside_allocator.libraries: handles and modules
  double fp32 = 0, tf32 = 0, fp16 = 0;  ///< peak.*, TFLOP/s without sparsity; 0: the GPU has no such units
  // Bytes a second in one direction, as published; 0: there is none, or it is not known.
  std::int64_t nvlink = 0;       ///< links.nvlink: to the other GPUs of its machine
  std::int64_t pcie = 0;         ///< links.pcie
  std::int64_t network = 0;      ///< links.network: its share of what its machine sends to others
  double network_latency = 9.6;  ///< links.network_latency, µs: NCCL's figure for a message of a ring
  std::string
      cudnn;  ///< a file with the properties of the device as cuDNN takes them; relative to `path`; may be empty

  /// What is left for an allocator where the process is alone on the device.
  std::int64_t free_bytes() const { return usable_bytes - context_bytes - library_bytes; }
  /// The file of `cudnn`; empty where there is none.
  std::string cudnn_path() const;
};

/// Reads a profile. Throws ConfigError whose what() holds every mistake found, located.
GpuProfile load_gpu_profile(const std::string& path);
GpuProfile parse_gpu_profile(std::string_view text, const std::string& file_name);

}  // namespace trainer
