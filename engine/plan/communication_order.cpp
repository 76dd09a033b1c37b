#include "engine/plan/communication_order.h"

#include "engine/ops/op_definition.h"
#include "engine/plan/step_routines.h"
#include "engine/program/routine_walk.h"

namespace trainer {
namespace {

/// FNV-1a (Fowler, Noll, Vo) over the ops that tell something, each with the tensors of which it tells.
class OrderHash {
 public:
  explicit OrderHash(const Program& program) : program_(program) {}

  void add(const Routine& routine) {
    for_each_call(program_, routine, [&](const OpCall& call) {
      if (!is_exchange(call.op)) return;
      add(static_cast<std::uint64_t>(call.op.kind));
      if (call.op.kind == OpKind::all_gather) return add(call.op.outputs);
      const std::span<const TensorType> inputs = call.op.inputs;
      const bool has_parts = call.op.kind == OpKind::reduce_scatter;
      add(has_parts ? inputs.first(static_cast<std::size_t>(attributes_of<RankPartsAttributes>(call.op).num_tensors))
                    : inputs);
    });
  }
  void add(std::uint64_t number) {
    for (int byte = 0; byte < 8; ++byte, number >>= 8U) hash_ = (hash_ ^ (number & 0xFFU)) * 0x100000001B3U;
  }
  std::uint64_t value() const { return hash_; }

 private:
  void add(std::span<const TensorType> tensors) {
    for (const TensorType& tensor : tensors) add(static_cast<std::uint64_t>(tensor.num_bytes()));
  }

  const Program& program_;
  std::uint64_t hash_ = 0xCBF29CE484222325U;
};

}  // namespace

std::uint64_t communication_order(const Program& program, const RunSchedule& schedule) {
  OrderHash hash(program);
  // Stages, and ranks with parts of layers, have orders of their own.
  if (program.pipeline || program.ranks.num_tensor > 1) return hash.value();
  const BatchParts& parts = schedule.parts();
  const auto add_step = [&](std::int64_t num_samples) {
    for (std::int64_t i = 0; num_samples > 0 && i < parts.num_own; ++i) {
      const Program::MicroBatch& micro_batch = micro_batch_of(program, parts.own(num_samples, i).count);
      hash.add(micro_batch.first);
      hash.add(micro_batch.next);
      for (const Routine& routine : micro_batch.others) hash.add(routine);
    }
  };
  const auto add_evaluation = [&](std::int64_t num_samples) {
    for (std::int64_t i = 0; num_samples > 0 && i < parts.num_own; ++i) {
      const EvaluationPass pass = evaluation_pass(program, parts.own(num_samples, i).count, i);
      for (const Routine* const routine : pass.routines()) hash.add(*routine);
    }
  };
  add_step(schedule.batch_size());
  add_step(schedule.odd_batch_size());
  for (const Routine* const routine : part_sum_routines(program)) hash.add(*routine);
  hash.add(program.update);
  add_evaluation(schedule.num_whole_eval_batches() > 0 ? schedule.eval_batch_size() : 0);
  add_evaluation(schedule.odd_eval_batch_size());
  return hash.value();
}

}  // namespace trainer
