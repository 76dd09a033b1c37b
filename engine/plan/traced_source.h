#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "engine/category.h"
#include "engine/graph/graph.h"
#include "engine/memory/memory_source.h"

namespace trainer {

/// What happens to the device's memory, or that an op runs in it.
struct MemoryAction {
  enum class Kind : std::uint8_t {
    run,      ///< an op
    acquire,  ///< of a segment from the device
    give_back,
    map,  ///< of pages in a range of addresses (memory.expandable_segments)
    unmap,
    allocate,  ///< of a buffer's block in what is held
    release
  };
  Kind kind = Kind::run;
  std::int32_t index = -1;  ///< run: a call of the program; allocate, release: a buffer
  Phase phase = Phase::load;
  std::uint64_t address = 0;   ///< on a simulated device: a real one's segments begin elsewhere
  std::int64_t num_bytes = 0;  ///< of the block, segment or pages; what a buffer asked for stands in the program
};

/// Adds what is asked of a source to a trace while there is one.
class TracedSource final : public MemorySource {
 public:
  /// `source` must outlive it.
  explicit TracedSource(MemorySource& source) : source_(source) {}

  void trace(std::vector<MemoryAction>* actions) { actions_ = actions; }

  void* acquire(std::int64_t num_bytes) override;
  void release(void* address, std::int64_t num_bytes) noexcept override;
  std::int64_t granule_bytes() const override { return source_.granule_bytes(); }
  void* reserve_range(std::int64_t num_bytes) override { return source_.reserve_range(num_bytes); }
  void release_range(void* address, std::int64_t num_bytes) noexcept override {
    source_.release_range(address, num_bytes);
  }
  bool map(void* address, std::int64_t num_bytes) override;
  void unmap(void* address, std::int64_t num_bytes) noexcept override;
  std::int64_t capacity() const override { return source_.capacity(); }
  void set_capacity(std::int64_t num_bytes) override { source_.set_capacity(num_bytes); }
  std::int64_t held() const override { return source_.held(); }

  /// What is held, by address: an acquire or map each.
  std::vector<MemoryAction> held_segments() const;

 private:
  void take(MemoryAction::Kind kind, const void* address, std::int64_t num_bytes);
  void give_back(MemoryAction::Kind kind, const void* address, std::int64_t num_bytes);

  MemorySource& source_;
  std::map<std::uint64_t, MemoryAction> held_;  ///< acquired segments and mapped pages, by address
  std::vector<MemoryAction>* actions_ = nullptr;
};

}  // namespace trainer
