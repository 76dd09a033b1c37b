#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/device/device.h"

namespace trainer {

/// Threads of what reads ahead. As its owner's last member it ends before anything that they use.
class ReaderThreads {
 public:
  /// `stop` makes all of them end soon.
  explicit ReaderThreads(std::function<void()> stop) : stop_(std::move(stop)) {}
  /// Stops them, and waits for them.
  ~ReaderThreads();
  ReaderThreads(const ReaderThreads&) = delete;
  ReaderThreads& operator=(const ReaderThreads&) = delete;

  /// Each runs `work`, which throws nothing. Throws DeviceError where the system lets the process start no more.
  void start(int count, const std::function<void()>& work);

 private:
  std::function<void()> stop_;
  std::vector<std::thread> threads_;
};

/// Host memory that `make` gives, or AlignedMemory where that is empty; at least a byte. Throws HostOutOfMemory, which
/// calls it `what`.
std::unique_ptr<HostMemory> make_batch_memory(
    const std::function<std::unique_ptr<HostMemory>(std::int64_t num_bytes)>& make, std::int64_t num_bytes,
    const std::string& what);

}  // namespace trainer
