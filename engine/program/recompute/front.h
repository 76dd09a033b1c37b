#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "engine/program/recompute/measure.h"
#include "engine/program/recompute/search.h"

namespace trainer {

/// The best orders met so far: none is both as fast and as small as another. What enters is measured first, so that a
/// candidate may come from any estimate. The problem must outlive it.
class RecomputeFront {
 public:
  RecomputeFront(const RecomputeProblem& problem, const std::vector<std::int32_t>& start);

  /// Measures `nodes` and keeps them if no order is as fast and as small; returns whether they were kept.
  bool offer(const std::vector<std::int32_t>& nodes) { return offer(nodes, meter_.measure(nodes)); }
  bool offer(const std::vector<std::int32_t>& nodes, OrderMeter::Figures figures);

  /// An order that this has not returned yet, from the fastest on; none when all have been.
  std::optional<std::vector<std::int32_t>> next_unvisited();

  void forget_visits();

  OrderMeter& meter() { return meter_; }
  std::int64_t start_peak_bytes() const { return start_peak_bytes_; }
  std::int64_t least_peak_bytes() const { return best_.begin()->first; }

  /// From the fastest to the smallest. What is faster than `start` and not smaller is left out.
  std::vector<RecomputeOrder> orders() const;

 private:
  struct Entry {
    double recompute_time = 0;
    std::vector<std::int32_t> nodes;
    bool is_visited = false;
  };
  OrderMeter meter_;
  std::int64_t start_peak_bytes_ = 0;
  std::int64_t visited_down_to_ = 0;    // peak of what next_unvisited returned last
  std::map<std::int64_t, Entry> best_;  // by peak; times fall as peaks rise
};

}  // namespace trainer
