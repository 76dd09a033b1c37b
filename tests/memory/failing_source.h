#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "engine/memory/memory_source.h"

namespace trainer::test {

/// A source with a capacity that also refuses at chosen calls of acquire, and that notices every wrong release.
/// Addresses are made up and fall, so an allocator that goes by address is found out.
class FailingSource final : public MemorySource {
 public:
  explicit FailingSource(std::int64_t capacity, std::set<int> refused_calls = {})
      : capacity_(capacity), refused_calls_(std::move(refused_calls)) {}

  void* acquire(std::int64_t num_bytes) override {
    const int call = num_calls_++;
    if (refused_calls_.count(call) != 0 || num_bytes > capacity_ - held_) return nullptr;
    held_ += num_bytes;
    next_address_ -= static_cast<std::uintptr_t>(num_bytes);
    void* address = reinterpret_cast<void*>(next_address_);
    segments_[address] = num_bytes;
    return address;
  }

  void release(void* address, std::int64_t num_bytes) noexcept override {
    const auto segment = segments_.find(address);
    if (segment == segments_.end() || segment->second != num_bytes) {
      ++num_wrong_releases_;
      return;
    }
    segments_.erase(segment);
    held_ -= num_bytes;
  }

  std::int64_t capacity() const override { return capacity_; }
  std::int64_t held() const override { return held_; }

  void refuse_call(int call) { refused_calls_.insert(call); }
  int num_calls() const { return num_calls_; }
  int num_wrong_releases() const { return num_wrong_releases_; }

 private:
  std::int64_t capacity_;
  std::set<int> refused_calls_;
  std::int64_t held_ = 0;
  std::uintptr_t next_address_ = std::uintptr_t{1} << 46;
  std::map<void*, std::int64_t> segments_;
  int num_calls_ = 0;
  int num_wrong_releases_ = 0;
};

}  // namespace trainer::test
