#pragma once

#include <atomic>
#include <cstdint>

namespace trainer::cuda {

/// What this process has taken of a device and not given back, so that what is held can be told without asking the
/// device. Read by any thread.
class MemoryChanges {
 public:
  /// Lives around a call that takes memory or gives it back: the device may count that before the call returns.
  class Change {
   public:
    explicit Change(MemoryChanges& changes) : changes_(changes) { changes_.num_begun_.fetch_add(1); }
    ~Change() { changes_.num_ended_.fetch_add(1); }
    Change(const Change&) = delete;
    Change& operator=(const Change&) = delete;
    /// `num_bytes` less than 0 where they were given back.
    void add(std::int64_t num_bytes) { changes_.held_.fetch_add(num_bytes); }

   private:
    MemoryChanges& changes_;
  };

  std::int64_t held() const { return held_.load(); }
  /// Changes so far. Where as many had begun after something as had ended before it, none was under way meanwhile.
  std::int64_t num_begun() const { return num_begun_.load(); }
  std::int64_t num_ended() const { return num_ended_.load(); }

 private:
  std::atomic<std::int64_t> held_{0}, num_begun_{0}, num_ended_{0};
};

}  // namespace trainer::cuda
