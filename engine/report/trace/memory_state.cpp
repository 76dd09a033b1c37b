#include "engine/report/trace/memory_state.h"

#include <iterator>

namespace trainer {
namespace {

/// What the caching allocator takes for its pool of small blocks (engine/memory/caching_allocator.h).
constexpr std::int64_t small_segment_bytes_of_trace = std::int64_t{2} << 20;

}  // namespace

void MemoryState::take(const MemoryAction& action, std::size_t position) {
  switch (action.kind) {
    case MemoryAction::Kind::run:
      break;
    case MemoryAction::Kind::acquire:
    case MemoryAction::Kind::map:
      held_[action.address] = {action.num_bytes, action.kind == MemoryAction::Kind::map};
      reserved_ += action.num_bytes;
      break;
    case MemoryAction::Kind::give_back:
    case MemoryAction::Kind::unmap:
      held_.erase(action.address);
      reserved_ -= action.num_bytes;
      break;
    case MemoryAction::Kind::allocate:
      blocks_[action.address] = {action.address, action.num_bytes, action.index, position};
      allocated_ += action.num_bytes;
      break;
    case MemoryAction::Kind::release:
      blocks_.erase(action.address);
      allocated_ -= action.num_bytes;
      break;
  }
}

std::vector<MemoryState::Segment> MemoryState::segments() const {
  std::vector<Segment> segments;
  for (const auto& [address, held] : held_) {
    const bool is_small = held.num_bytes == small_segment_bytes_of_trace;
    if (held.is_mapped && !segments.empty()) {
      Segment& last = segments.back();
      const bool follows = last.address + static_cast<std::uint64_t>(last.num_bytes) == address;
      if (last.is_expandable && last.is_small == is_small && follows) {
        last.num_bytes += held.num_bytes;
        continue;
      }
    }
    segments.push_back({address, held.num_bytes, held.is_mapped, is_small});
  }
  auto block = blocks_.begin();
  for (Segment& segment : segments) {
    std::uint64_t place = segment.address;
    const std::uint64_t end = segment.address + static_cast<std::uint64_t>(segment.num_bytes);
    const auto fill_up_to = [&](std::uint64_t next) {
      if (next > place) segment.pieces.push_back({place, static_cast<std::int64_t>(next - place)});
      place = next;
    };
    for (; block != blocks_.end() && block->first < end; ++block) {
      fill_up_to(block->first);
      segment.pieces.push_back(block->second);
      place = block->first + static_cast<std::uint64_t>(block->second.num_bytes);
    }
    fill_up_to(end);
  }
  return segments;
}

}  // namespace trainer
