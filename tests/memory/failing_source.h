#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "engine/memory/memory_source.h"

namespace trainer::test {

/// A source with a capacity that also refuses at chosen calls of acquire and map, and that notices every wrong release,
/// map and unmap. Addresses are made up and fall, so an allocator that goes by address is found out.
class FailingSource final : public MemorySource {
 public:
  explicit FailingSource(std::int64_t capacity, std::set<int> refused_calls = {})
      : capacity_(capacity), refused_calls_(std::move(refused_calls)) {}

  void* acquire(std::int64_t num_bytes) override {
    if (!grants(num_bytes)) return nullptr;
    void* address = lower_address(num_bytes);
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

  std::int64_t granule_bytes() const override { return granule; }
  void* reserve_range(std::int64_t num_bytes) override {
    void* address = lower_address(num_bytes);
    ranges_[address] = num_bytes;
    return address;
  }
  void release_range(void* address, std::int64_t num_bytes) noexcept override {
    const auto range = ranges_.find(address);
    const auto page = pages_.lower_bound(reinterpret_cast<std::uintptr_t>(address));
    if (range == ranges_.end() || range->second != num_bytes ||
        (page != pages_.end() &&
         *page < reinterpret_cast<std::uintptr_t>(address) + static_cast<std::uintptr_t>(num_bytes))) {
      ++num_wrong_releases_;
      return;
    }
    ranges_.erase(range);
  }
  bool map(void* address, std::int64_t num_bytes) override {
    if (!grants(num_bytes)) return false;
    for_each_page(address, num_bytes, [&](std::uintptr_t page) {
      if (!in_a_range(page) || !pages_.insert(page).second) ++num_wrong_releases_;
    });
    return true;
  }
  void unmap(void* address, std::int64_t num_bytes) noexcept override {
    for_each_page(address, num_bytes, [&](std::uintptr_t page) {
      if (pages_.erase(page) == 0) ++num_wrong_releases_;
    });
    held_ -= num_bytes;
  }
  bool is_mapped(const void* address) const {
    return pages_.count(reinterpret_cast<std::uintptr_t>(address) / granule * granule) != 0;
  }

  std::int64_t capacity() const override { return capacity_; }
  void set_capacity(std::int64_t num_bytes) override { capacity_ = num_bytes; }
  std::int64_t held() const override { return held_; }

  void refuse_call(int call) { refused_calls_.insert(call); }
  int num_calls() const { return num_calls_; }
  int num_wrong_releases() const { return num_wrong_releases_; }
  std::size_t num_ranges() const { return ranges_.size(); }

 private:
  static constexpr std::uintptr_t granule = std::uintptr_t{2} << 20;

  bool grants(std::int64_t num_bytes) {
    const int call = num_calls_++;
    if (refused_calls_.count(call) != 0 || num_bytes > capacity_ - held_) return false;
    held_ += num_bytes;
    return true;
  }
  void* lower_address(std::int64_t num_bytes) {
    next_address_ = (next_address_ - static_cast<std::uintptr_t>(num_bytes)) / granule * granule;
    return reinterpret_cast<void*>(next_address_);
  }
  bool in_a_range(std::uintptr_t page) const {
    auto range = ranges_.upper_bound(reinterpret_cast<void*>(page));
    if (range == ranges_.begin()) return false;
    --range;
    return page + granule <=
           reinterpret_cast<std::uintptr_t>(range->first) + static_cast<std::uintptr_t>(range->second);
  }
  template <typename Visit>
  void for_each_page(void* address, std::int64_t num_bytes, Visit&& visit) {
    const auto begin = reinterpret_cast<std::uintptr_t>(address);
    const auto end = begin + static_cast<std::uintptr_t>(num_bytes);
    if (begin % granule != 0 || end % granule != 0 || num_bytes <= 0) ++num_wrong_releases_;
    for (std::uintptr_t page = begin; page < end; page += granule) visit(page);
  }

  std::int64_t capacity_;
  std::set<int> refused_calls_;
  std::int64_t held_ = 0;
  std::uintptr_t next_address_ = std::uintptr_t{1} << 46;
  std::map<void*, std::int64_t> segments_, ranges_;
  std::set<std::uintptr_t> pages_;  ///< addresses of the mapped granules
  int num_calls_ = 0;
  int num_wrong_releases_ = 0;
};

}  // namespace trainer::test
