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

  /// The figures of `nodes` without further runs that nothing reads (without_unread), and the most bytes that each
  /// stage holds: a first run with the further ones between it and the first run in front of it.
  Figures measure_stages(const std::vector<std::int32_t>& nodes, std::vector<std::int64_t>& stage_bytes);

 private:
  /// What one run of a node does to memory: its first run, or a further one. Lists are ranges of operands_ and rules_.
  struct Run {
    struct Range {
      std::int32_t begin = 0, end = 0;
    };
    Range reads;       // values that are not given
    Range makes;       // values; a further run leaves alone what is never computed again
    Range take_overs;  // rules that can apply
    double time = 0;
  };
  Run run_of(const RecomputeProblem::Node& node, bool is_rerun);
  std::int64_t taken_over_bytes(const Run& run, std::int64_t& made_bytes) const;
  std::int64_t step_back(const Run& run, std::int64_t& held_bytes);
  double count_runs(const std::vector<std::int32_t>& nodes);
  Figures walk(const std::vector<std::int32_t>& nodes, std::vector<Step>* steps);
  void forget_reads();

  const RecomputeProblem& problem_;
  std::vector<bool> has_producer_;  // by value
  std::int64_t source_bytes_ = 0;   // what is there at the start and may be released
  std::vector<std::int32_t> operands_;
  std::vector<RecomputeProblem::Node::TakeOver> rules_;
  std::vector<Run> first_runs_, further_runs_;  // by node
  std::vector<std::int64_t> released_bytes_;    // by value: after its last read; 0 for what stays

  std::vector<std::int32_t> num_runs_;       // by node
  std::vector<std::uint8_t> is_read_later_;  // by value: behind the position that is walked
  std::vector<std::int64_t> last_read_by_;   // by value: the number of the walked position; positions are never
  std::int64_t num_walked_ = 0;              // numbered twice
  mutable std::vector<std::int32_t> taken_;  // values whose memory the outputs of the running node took over
};

}  // namespace trainer
