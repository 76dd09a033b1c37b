#pragma once

#include "engine/program/recompute/search.h"

namespace trainer {

/// Walks orders of one problem. What does not depend on the order is found once, so that a search can afford thousands
/// of walks; each takes time linear in what its nodes read and write. The problem must outlive it.
class OrderMeter {
 public:
  explicit OrderMeter(const RecomputeProblem& problem);

  /// What measure_order says of `nodes`; its errors too.
  struct Figures {
    std::int64_t peak_bytes = 0;
    double recompute_time = 0;
  };
  Figures measure(const std::vector<std::int32_t>& nodes);

  /// The same, and for each position of `nodes` the bytes held while its node runs and those held after it,
  /// base_bytes included.
  struct Step {
    std::int64_t running_bytes = 0, after_bytes = 0;
  };
  Figures measure(const std::vector<std::int32_t>& nodes, std::vector<Step>& steps);

 private:
  const std::vector<std::int32_t>& reads_of(std::int32_t node, bool is_rerun) const;
  void find_last_reads(const std::vector<std::int32_t>& nodes);
  bool takes_over(const RecomputeProblem::Node& node, std::int32_t output, std::int64_t position);
  Figures walk(const std::vector<std::int32_t>& nodes, std::vector<Step>* steps);

  const RecomputeProblem& problem_;
  std::vector<bool> has_producer_;         // by value
  std::int64_t source_bytes_ = 0;          // what is there at the start and may be released
  std::vector<std::int32_t> num_runs_;     // by node
  std::vector<std::int32_t> newest_copy_;  // by value; -1: not computed
  std::vector<std::int64_t> last_read_;    // by copy, in the order they are made: a position, or -1 for none
  std::vector<std::int32_t> taken_;        // values whose memory the outputs of the running node took over
};

}  // namespace trainer
