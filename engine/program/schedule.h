#pragma once

#include <deque>
#include <functional>
#include <span>
#include <utility>

#include "engine/device/device.h"
#include "engine/program/program.h"

namespace trainer {

/// Turns graphs into routines of one program: in-place reuse, exact lifetimes, one workspace for each call.
///
/// Note [Lifetimes]
/// A buffer is allocated directly before the call that first writes it and released directly after the last call that
/// reads it, in the order the graph's nodes stand. Each value has a buffer of its own, except that a view shares its
/// base's, and that an op may write over an input which nothing reads later, if its definition allows it
/// (OpDefinition::in_place). Buffers of the batch are never written over: they keep their category. Gradients of
/// parameters live on to the update, or, with updates in the backward pass, to the update behind their last use.
class Scheduler {
 public:
  /// Appends the update of parameters whose gradients are complete to a routine.
  using AppendUpdate = std::function<void(Routine&, std::span<const std::int32_t> parameters)>;

  Scheduler(Program& program, const DeviceModel& device, bool in_place = true)
      : program_(program), device_(device), in_place_(in_place) {}

  /// From here on a training routine updates each parameter, and releases its gradient, as soon as the gradient is
  /// there and nothing reads the weight any more.
  void update_in_backward(AppendUpdate append_update) { append_update_ = std::move(append_update); }

  /// Where ranks add up gradients, which training routines make.
  struct GradientSums {
    bool in_backward = false;  ///< a bucket at a time, but for the last where `keeps_wholes`; else the update does all
    bool keeps_wholes = true;  ///< until the update; else wholes are released behind the sum of their bucket
    bool has_parts = false;    ///< this rank has its parts of the sums alone: Note [Sharded models] in sharding.h
    std::int64_t bucket_bytes = 0;    ///< at most, but for a gradient that has more by itself
    std::int64_t num_prefetched = 1;  ///< gathers that are started ahead of the one that is needed, where they are
    bool starts = false;              ///< sums and gathers: Note [Started exchanges] in engine/ops/finish_exchange.h
  };
  void set_gradient_sums(const GradientSums& sums) { sums_ = sums; }
  const GradientSums& gradient_sums() const { return sums_; }
  /// Whether this rank keeps its parts of the sums of gradients alone.
  bool shares_gradients() const { return !sums_.keeps_wholes; }

  /// How a training routine takes part in a step.
  struct Pass {
    bool adds = false;              ///< to the gradients that an earlier one left; else it starts them
    bool starts_statistics = true;  ///< of the loss
    std::size_t place = 0;          ///< where its gradients stay: Note [Sums of parts] in part_sums.h
  };

  Routine schedule_training(const Graph& graph, const Pass& pass, std::string name);

  /// A part of a training routine: Note [Segments] in pipeline/pipeline_steps.h.
  struct Segment {
    enum class Kind : std::uint8_t { forward, backward, weight_gradients, exchange, finish } kind = Kind::forward;
    std::int32_t place = 0;    ///< a chunk of the list of layers; of the last two: the number of a message
    bool is_gradient = false;  ///< of the last two: it is the gradient of the message
    Routine routine{};
    bool exchanges() const { return kind >= Kind::exchange; }
  };
  struct SegmentOptions {
    std::function<std::int32_t(LayerId)> chunk_of{};
    std::size_t num_deferred = 0;  ///< last nodes of the graph that make gradients of weights by themselves
    bool starts = false;           ///< messages are started, and finished by segments of their own
  };
  /// The same routine in segments, in its order.
  std::vector<Segment> schedule_segments(const Graph& graph, const Pass& pass, const std::string& name,
                                         const SegmentOptions& options);
  Routine schedule_evaluation(const Graph& graph, std::string name);
  /// An evaluation that leaves Graph::prediction in a buffer, and does not release it.
  Routine schedule_prediction(const Graph& graph, std::string name, BufferId& prediction);

  /// A buffer that outlives routines; the caller allocates it in one of them.
  BufferId add_buffer(std::string name, LayerId layer, Category category, const TensorType& type);
  /// Appends allocate, run and release of `op` over existing buffers to the routine, with the workspace it needs.
  void append_call(Routine& routine, Op op, std::vector<BufferId> inputs, std::vector<BufferId> outputs, LayerId layer,
                   Phase phase);

  /// Appends the run alone, with a workspace that is there; -1: it needs none.
  void append_run(Routine& routine, Op op, std::vector<BufferId> inputs, std::vector<BufferId> outputs,
                  BufferId workspace, LayerId layer, Phase phase);
  std::int64_t workspace_bytes(const Op& op) const { return device_.workspace_bytes(op); }

  /// Appends what a step begins with.
  void append_start_of_statistics(Routine& routine, int num_terms, LayerId layer, Phase phase);

  /// Of one place, by parameter; -1 until a training routine has been scheduled.
  struct Gradients {
    std::vector<BufferId> wholes;
    std::vector<BufferId> parts;   ///< where gradients are shared, this rank's parts of their sums; -1: it has none
    std::vector<char> are_summed;  ///< over ranks, by training routines that keep wholes
    const std::vector<BufferId>& kept(bool are_shared) const { return are_shared ? parts : wholes; }
  };
  Gradients& gradients_at(std::size_t place) {
    if (place >= gradients_.size()) gradients_.resize(place + 1);
    return gradients_[place];
  }
  /// Those that are updated with.
  std::vector<BufferId>& gradient_buffers() { return gradients_at(0).wholes; }
  std::vector<BufferId>& gradient_parts() { return gradients_at(0).parts; }
  bool in_place() const { return in_place_; }
  const AppendUpdate& append_update() const { return append_update_; }

 private:
  Program& program_;
  const DeviceModel& device_;
  const bool in_place_;
  AppendUpdate append_update_;
  GradientSums sums_;
  std::deque<Gradients> gradients_;  ///< by place; references to them stay
};

}  // namespace trainer
