#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "engine/device/step_scalars.h"
#include "engine/memory/memory_source.h"
#include "engine/ops/op.h"

namespace trainer {

/// What a program must know of a device before it runs. Also answerable for a device that is only described.
class DeviceModel {
 public:
  virtual ~DeviceModel() = default;

  virtual std::string kind() const = 0;  ///< "cpu", "cuda"
  virtual std::string name() const = 0;  ///< "AMD EPYC, 2 threads"
  /// Scratch that `op` needs while it runs; 0 for most. The same for equal ops, on every call.
  virtual std::int64_t workspace_bytes(const Op& op) const = 0;
};

/// Addresses of one call, in the order of the op's operands.
struct OperandAddresses {
  std::span<void* const> inputs;
  std::span<void* const> outputs;
  void* workspace = nullptr;  ///< workspace_bytes(op), 512-byte aligned; null where 0
};

/// A kernel made for one op: primitives, strides and launch sizes are settled, only addresses and scalars are open.
class Kernel {
 public:
  virtual ~Kernel() = default;
  /// Queues the kernel on the device's stream. Must not allocate memory. Throws DeviceError where the device fails.
  virtual void run(const OperandAddresses& addresses, const StepScalars& scalars) = 0;
};

/// A machine that runs programs. One thread uses it at a time.
class Device : public DeviceModel {
 public:
  /// A kernel for `op`; equal ops share one. The device owns it.
  virtual Kernel& prepare(const Op& op) = 0;

  /// The memory that `capacity` bytes may be acquired from. Called once for each allocator.
  virtual std::unique_ptr<MemorySource> make_memory_source(std::int64_t capacity) = 0;
  /// Bytes that can be acquired now.
  virtual std::int64_t available_bytes() const = 0;
  /// The device's own count for this process: resident memory, or what nvidia-smi shows.
  virtual std::int64_t used_bytes() const = 0;
  virtual std::int64_t total_bytes() const = 0;

  /// Queue copies on the device's stream; the host memory must stay until synchronize().
  virtual void copy_to_device(void* destination, const void* source, std::int64_t num_bytes) = 0;
  virtual void copy_to_host(void* destination, const void* source, std::int64_t num_bytes) = 0;
  virtual void fill_zero(void* destination, std::int64_t num_bytes) = 0;
  /// Waits until everything queued is done; throws DeviceError for a fault in it.
  virtual void synchronize() = 0;
};

}  // namespace trainer
