#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/device/device.h"

namespace trainer {

/// The memory of one op's operands on any device: each between 512 guard bytes, aligned as an allocator's. Where it is
/// this machine's own memory, the address sanitizer refuses the guards while the op runs, so reading them is a fault as
/// well.
class OperandMemory {
 public:
  explicit OperandMemory(Device& device) : device_(device) {}
  ~OperandMemory();
  OperandMemory(const OperandMemory&) = delete;
  OperandMemory& operator=(const OperandMemory&) = delete;

  /// Adds an operand that starts as `bytes`; returns its number.
  std::size_t add(const std::vector<std::byte>& bytes);
  std::size_t add(std::size_t num_bytes, std::byte fill) { return add(std::vector<std::byte>(num_bytes, fill)); }

  /// Acquires the memory and queues the copies; nothing is added afterwards.
  void to_device();
  void* address(std::size_t operand) const { return segment_ + offsets_[operand]; }
  /// Waits for the device and takes back what the memory holds now.
  void to_host();
  std::vector<std::byte> bytes(std::size_t operand) const;
  bool guards_hold(std::size_t operand) const;

 private:
  void poison_guards();
  void unpoison();

  Device& device_;
  std::unique_ptr<MemorySource> source_;
  std::byte* segment_ = nullptr;
  std::vector<std::byte> image_;  // of the segment, on the host
  std::vector<std::size_t> offsets_, sizes_;
};

}  // namespace trainer
