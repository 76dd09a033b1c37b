#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/memory/allocator.h"
#include "engine/program/program.h"

namespace trainer {

using CategoryBytes = std::array<std::int64_t, num_categories>;

/// The blocks of a program's live buffers: what both the plan and the executor move through a routine.
class LiveBuffers {
 public:
  LiveBuffers(const Program& program, Allocator& allocator);
  ~LiveBuffers();
  LiveBuffers(const LiveBuffers&) = delete;
  LiveBuffers& operator=(const LiveBuffers&) = delete;

  /// Throws OutOfMemory; nothing is changed then.
  void allocate(BufferId buffer);
  void release(BufferId buffer) noexcept;
  /// Releases everything that is live.
  void release_all() noexcept;
  bool is_live(BufferId buffer) const { return blocks_[buffer].id >= 0; }
  void* address(BufferId buffer) const { return blocks_[buffer].address; }
  const Block& block(BufferId buffer) const { return blocks_[buffer]; }

  /// Whole blocks; the sums equal the allocator's `allocated`.
  CategoryBytes by_category() const;
  /// By layer and category, the last entry for buffers of no layer.
  std::vector<CategoryBytes> by_layer() const;
  /// Live buffers, largest first, ties by buffer.
  std::vector<BufferId> largest(int count) const;

 private:
  const Program& program_;
  Allocator& allocator_;
  std::vector<Block> blocks_;
};

}  // namespace trainer
