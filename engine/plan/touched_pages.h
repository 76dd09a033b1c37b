#pragma once

#include <cstdint>
#include <map>

#include "engine/memory/memory_source.h"

namespace trainer {

/// Note [Touched pages]
/// Host memory becomes resident page by page, when it is first written, so that the end of a segment which no block has
/// reached yet costs nothing. A simulated source that counts the pages which have been part of a block: of 2 MiB, as
/// HostSource advises the kernel to take, from the 2 MiB on which its segments begin.
class TouchedPages final : public MemorySource {
 public:
  /// `source` must outlive it; its segments are aligned to 2 MiB.
  explicit TouchedPages(MemorySource& source) : source_(source) {}

  /// A block lies at `address`.
  void touch(const void* address, std::int64_t num_bytes);
  /// Of the pages held now; the most at any time.
  std::int64_t touched_bytes() const { return touched_bytes_; }
  std::int64_t peak_touched_bytes() const { return peak_touched_bytes_; }

  void* acquire(std::int64_t num_bytes) override { return source_.acquire(num_bytes); }
  void release(void* address, std::int64_t num_bytes) noexcept override;
  std::int64_t granule_bytes() const override { return source_.granule_bytes(); }
  void* reserve_range(std::int64_t num_bytes) override { return source_.reserve_range(num_bytes); }
  void release_range(void* address, std::int64_t num_bytes) noexcept override {
    source_.release_range(address, num_bytes);
  }
  bool map(void* address, std::int64_t num_bytes) override { return source_.map(address, num_bytes); }
  void unmap(void* address, std::int64_t num_bytes) noexcept override;
  std::int64_t capacity() const override { return source_.capacity(); }
  void set_capacity(std::int64_t num_bytes) override { source_.set_capacity(num_bytes); }
  std::int64_t held() const override { return source_.held(); }

 private:
  void forget(std::uintptr_t begin, std::uintptr_t end) noexcept;

  MemorySource& source_;
  std::map<std::uintptr_t, std::uintptr_t> ranges_;  ///< touched pages: begin to end, apart from each other
  std::int64_t touched_bytes_ = 0, peak_touched_bytes_ = 0;
};

}  // namespace trainer
