#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "engine/program/program.h"

namespace trainer {

/// Walks routines as an executor would and checks every promise about lifetimes: nothing is allocated twice or released
/// dead, every operand is live when a call uses it, and of the size that its op says, and no two outputs are one.
class LiveProgram {
 public:
  explicit LiveProgram(const Program& program) : program_(program) {}

  void walk(const Routine& routine) {
    for (const Instruction& instruction : routine.instructions) {
      if (instruction.kind == Instruction::Kind::run) {
        check(program_.calls[instruction.index]);
        continue;
      }
      const std::int64_t num_bytes = program_.buffers[instruction.index].num_bytes;
      if (instruction.kind == Instruction::Kind::allocate) {
        REQUIRE(live_.insert(instruction.index).second);
        bytes_ += num_bytes;
      } else {
        REQUIRE(live_.erase(instruction.index) == 1);
        bytes_ -= num_bytes;
      }
      peak_bytes_ = std::max(peak_bytes_, bytes_);
    }
  }
  const std::set<BufferId>& live() const { return live_; }
  std::int64_t bytes() const { return bytes_; }
  std::int64_t peak_bytes() const { return peak_bytes_; }

 private:
  void check(const OpCall& call) const {
    REQUIRE(call.inputs.size() == call.op.inputs.size());
    REQUIRE(call.outputs.size() == call.op.outputs.size());
    for (std::size_t i = 0; i < call.inputs.size(); ++i) check(call.inputs[i], call.op.inputs[i]);
    for (std::size_t i = 0; i < call.outputs.size(); ++i) check(call.outputs[i], call.op.outputs[i]);
    REQUIRE(std::set<BufferId>(call.outputs.begin(), call.outputs.end()).size() == call.outputs.size());
    if (call.workspace >= 0) REQUIRE(live_.contains(call.workspace));
  }
  void check(BufferId operand, const TensorType& type) const {
    REQUIRE(live_.contains(operand));
    REQUIRE(program_.buffers[operand].num_bytes == type.num_bytes());
  }

  const Program& program_;
  std::set<BufferId> live_;
  std::int64_t bytes_ = 0, peak_bytes_ = 0;
};

/// The most bytes that a step of one micro-batch or an evaluation holds at once.
inline std::int64_t peak_bytes(const Program& program) {
  LiveProgram live(program);
  live.walk(program.load);
  live.walk(program.micro_batches[0].first);
  live.walk(program.update);
  for (const Routine& routine : program.evaluations) live.walk(routine);
  return live.peak_bytes();
}

}  // namespace trainer
