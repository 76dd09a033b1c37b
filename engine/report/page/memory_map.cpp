#include "engine/report/page/memory_map.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "engine/errors.h"

namespace trainer {
namespace {

class MapDrawing {
 public:
  MapDrawing(const Program& program, std::span<const double> call_seconds)
      : program_(program), call_seconds_(call_seconds) {}

  MemoryMap draw(const MemoryTrace& trace) {
    map_.step = trace.step;
    map_.evaluation = trace.evaluation;
    for (const MemoryAction& action : trace.before) take(action, MemoryMap::before_step);
    grew_ = false;
    for (const MemoryAction& action : trace.actions) take(action);
    if (grew_ || map_.moments.empty()) end_moment({.phase = phase_});
    place_all();
    const auto is_lower = [](const MemoryMap::Moment& a, const MemoryMap::Moment& b) {
      return a.allocated < b.allocated;
    };
    map_.peak = static_cast<std::int32_t>(std::max_element(map_.moments.begin(), map_.moments.end(), is_lower) -
                                          map_.moments.begin());
    return std::move(map_);
  }

 private:
  std::int32_t now() const { return static_cast<std::int32_t>(map_.moments.size()); }

  void end_moment(MemoryMap::Moment moment) {
    moment.allocated = allocated_;
    moment.reserved = reserved_;
    map_.moments.push_back(moment);
    grew_ = false;
  }

  void take(const MemoryAction& action) {
    using Kind = MemoryAction::Kind;
    phase_ = action.phase;
    if (action.kind == Kind::run) {
      const OpCall& call = program_.calls[static_cast<std::size_t>(action.index)];
      return end_moment({.call = action.index,
                         .phase = action.phase,
                         .layer = call.layer,
                         .seconds = call_seconds_[static_cast<std::size_t>(action.index)]});
    }
    const bool shrinks = action.kind == Kind::release || action.kind == Kind::give_back || action.kind == Kind::unmap;
    if (shrinks && grew_) end_moment({.phase = action.phase});
    take(action, now());
  }

  void take(const MemoryAction& action, std::int32_t moment) {
    using Kind = MemoryAction::Kind;
    switch (action.kind) {
      case Kind::run:
        break;
      case Kind::acquire:
      case Kind::map:
        held_[action.address] = map_.segments.size();
        map_.segments.push_back({.num_bytes = action.num_bytes, .begin = moment});
        segment_addresses_.push_back(action.address);
        is_mapped_.push_back(action.kind == Kind::map);
        reserved_ += action.num_bytes;
        grew_ = true;
        break;
      case Kind::give_back:
      case Kind::unmap:
        map_.segments[taken_out(held_, action.address)].end = moment;
        reserved_ -= action.num_bytes;
        break;
      case Kind::allocate:
        live_[action.address] = map_.blocks.size();
        map_.blocks.push_back({.buffer = action.index,
                               .phase = moment == MemoryMap::before_step ? Phase::load : action.phase,
                               .num_bytes = action.num_bytes,
                               .begin = moment});
        block_addresses_.push_back(action.address);
        allocated_ += action.num_bytes;
        grew_ = true;
        break;
      case Kind::release:
        map_.blocks[taken_out(live_, action.address)].end = moment;
        allocated_ -= action.num_bytes;
        break;
    }
  }

  using ByAddress = std::unordered_map<std::uint64_t, std::size_t>;
  static std::size_t taken_out(ByAddress& pieces, std::uint64_t address) {
    const auto found = pieces.find(address);
    require_internal(found != pieces.end(), "what a trace gives back was taken in it");
    const std::size_t index = found->second;
    pieces.erase(found);
    return index;
  }

  /// Finds the ranges, and the place of each piece in them.
  void place_all() {
    std::vector<std::size_t> order(segment_addresses_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(),
              [this](std::size_t a, std::size_t b) { return segment_addresses_[a] < segment_addresses_[b]; });
    std::uint64_t last_end = 0;
    for (const std::size_t i : order) {
      const std::uint64_t begin = segment_addresses_[i];
      const std::uint64_t end = begin + static_cast<std::uint64_t>(map_.segments[i].num_bytes);
      // Blocks lie across pages, and never across segments, which may touch.
      const bool goes_on = !map_.ranges.empty() && (begin < last_end || (begin == last_end && is_mapped_[i]));
      if (!goes_on) map_.ranges.push_back({begin, 0});
      last_end = std::max(last_end, end);
      map_.ranges.back().num_bytes = static_cast<std::int64_t>(last_end - map_.ranges.back().address);
    }
    for (std::size_t i = 0; i < segment_addresses_.size(); ++i) place(map_.segments[i], segment_addresses_[i]);
    for (std::size_t i = 0; i < block_addresses_.size(); ++i) place(map_.blocks[i], block_addresses_[i]);
  }

  template <typename Piece>
  void place(Piece& piece, std::uint64_t address) const {
    const auto is_before = [](std::uint64_t sought, const MemoryMap::Range& range) { return sought < range.address; };
    const auto behind = std::upper_bound(map_.ranges.begin(), map_.ranges.end(), address, is_before);
    require_internal(behind != map_.ranges.begin(), "a block lies in what is held");
    piece.range = static_cast<std::int32_t>(behind - map_.ranges.begin()) - 1;
    piece.offset = static_cast<std::int64_t>(address - map_.ranges[static_cast<std::size_t>(piece.range)].address);
  }

  const Program& program_;
  const std::span<const double> call_seconds_;
  MemoryMap map_;
  ByAddress live_, held_;
  std::vector<std::uint64_t> block_addresses_, segment_addresses_;
  std::vector<bool> is_mapped_;  ///< by segment: pages
  std::int64_t allocated_ = 0, reserved_ = 0;
  Phase phase_ = Phase::load;
  bool grew_ = false;  ///< since the last moment
};

}  // namespace

MemoryMap make_memory_map(const Program& program, const MemoryTrace& trace, std::span<const double> call_seconds) {
  return MapDrawing(program, call_seconds).draw(trace);
}

}  // namespace trainer
