#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
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
  /// Releases everything but persistent buffers.
  void release_transient() noexcept;
  /// Whether every persistent buffer is live, and nothing else.
  bool holds_only_persistent() const;
  bool is_persistent(BufferId buffer) const { return is_persistent_[buffer] != 0; }
  bool is_live(BufferId buffer) const { return blocks_[buffer].id >= 0; }
  void* address(BufferId buffer) const {
    const Buffer& info = program_.buffers[buffer];
    if (info.view_of < 0) return blocks_[buffer].address;
    return static_cast<std::byte*>(blocks_[info.view_of].address) + info.view_offset;
  }
  const Block& block(BufferId buffer) const { return blocks_[buffer]; }

  /// From here on transient buffers have these places: Note [Placed layouts] in placed_layouts.h. None is live.
  void use_places(std::shared_ptr<const Placement> places) { transient_places_ = std::move(places); }
  /// Whether each transient buffer has a place, by the program or by use_places.
  bool has_places() const { return program_.placement || transient_places_; }

  /// Whole blocks; the sums equal the allocator's `allocated`.
  CategoryBytes by_category() const;
  /// By layer and category, the last entry for buffers of no layer.
  std::vector<CategoryBytes> by_layer() const;
  /// Live buffers, largest first, ties by buffer.
  std::vector<BufferId> largest(int count) const;

 private:
  const Program& program_;
  Allocator& allocator_;
  const std::vector<char> is_persistent_;  ///< by buffer
  std::vector<Block> blocks_;
  std::shared_ptr<const Placement> transient_places_;  ///< where the program has none
};

}  // namespace trainer
