#pragma once

#include <cstdint>
#include <vector>

#include "engine/program/recompute/search.h"

namespace trainer {

/// The steps that make an order hold less at one place: a value that is there and read later is released and computed
/// again right before that read. The problem must outlive it.
class Reruns {
 public:
  explicit Reruns(const RecomputeProblem& problem);

  /// The place in question: behind the node at `place` of `order`.
  void look_at(const std::vector<std::int32_t>& order, std::size_t place);

  /// Whether there is such a step for the value: it is there, read later, and not made anew before that.
  bool is_possible(std::int32_t value) const { return producer_[value] >= 0 && next_read_[value] >= 0; }
  /// Where its copy was made or read last before the place or at it.
  std::int64_t last_event(std::int32_t value) const { return last_event_[value]; }

  /// `order` with what makes `value` run again right before it is read next. What that reads is held until then, or, if
  /// `all`, computed again too where it is not held at the place anyway; empty where that is the same.
  std::vector<std::int32_t> with_runs(const std::vector<std::int32_t>& order, std::int32_t value, bool all) const;

  /// with_runs(order, value, true), where what runs for that is not run again later, but held until it is read there;
  /// empty where nothing is.
  std::vector<std::int32_t> with_runs_once(const std::vector<std::int32_t>& order, std::int32_t value) const;

  /// `order` with all of `values` released at the place, and made again right before they are read next, with what that
  /// takes and is not held at the place anyway; each once.
  std::vector<std::int32_t> without_held(const std::vector<std::int32_t>& order,
                                         const std::vector<std::int32_t>& values) const;

  /// `order` with the further run that reads `value` next moved before the place, to where the value was made or read
  /// last, so that its outputs are held instead; empty where what reads it next is no further run.
  std::vector<std::int32_t> with_earlier_run(const std::vector<std::int32_t>& order, std::int32_t value) const;

  std::int32_t num_values() const { return static_cast<std::int32_t>(producer_.size()); }

 private:
  /// In the order of the nodes.
  std::vector<std::int32_t> runs_for(const std::vector<std::int32_t>& order, std::int32_t value, bool all) const;
  const std::vector<std::int32_t>& reads_of(std::int32_t node, bool is_rerun) const {
    const RecomputeProblem::Node& info = problem_.nodes[node];
    return is_rerun && !info.rerun_inputs.empty() ? info.rerun_inputs : info.inputs;
  }

  const RecomputeProblem& problem_;
  std::size_t place_ = 0;
  std::vector<std::int32_t> producer_;                     // by value: of what may be computed again
  std::vector<std::int64_t> last_event_, next_read_;       // by value, of the copy that is there at the place; -1: none
  std::vector<std::int32_t> num_runs_, runs_until_place_;  // by node
};

}  // namespace trainer
