#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "engine/plan/traced_source.h"

namespace trainer {

/// What is held behind some actions of a trace: segments, and the blocks in them.
class MemoryState {
 public:
  /// A piece of a segment: a block, or what is free between two.
  struct Piece {
    std::uint64_t address = 0;
    std::int64_t num_bytes = 0;
    std::int32_t buffer = -1;  ///< -1: free
    std::size_t action = 0;    ///< that allocated it, as take() was told
  };
  struct Segment {
    std::uint64_t address = 0;
    std::int64_t num_bytes = 0;
    bool is_expandable = false;   ///< pages that follow each other
    bool is_small = false;        ///< of the pool of small blocks, by its size: of 2 MiB, or of such pages
    std::vector<Piece> pieces{};  ///< in order, without gaps
  };

  /// `position`: told of the blocks that it allocates.
  void take(const MemoryAction& action, std::size_t position);

  std::vector<Segment> segments() const;
  std::int64_t reserved() const { return reserved_; }
  std::int64_t allocated() const { return allocated_; }

 private:
  struct Held {
    std::int64_t num_bytes = 0;
    bool is_mapped = false;
  };
  std::map<std::uint64_t, Held> held_;  ///< acquired segments and mapped pages, by address
  std::map<std::uint64_t, Piece> blocks_;
  std::int64_t reserved_ = 0, allocated_ = 0;
};

}  // namespace trainer
