#pragma once

#include <cstddef>
#include <vector>

#include "engine/half.h"
#include "engine/train/executor.h"

namespace trainer {

/// What the loss of a routine reads.
class EvaluatedLogits final : public CallObserver {
 public:
  explicit EvaluatedLogits(Executor& executor) : executor_(executor) {}

  void before_call(const OpCall& call) override {
    if (call.op.kind != OpKind::cross_entropy) return;
    const TensorType& type = call.op.inputs.front();
    std::vector<std::byte> bytes(static_cast<std::size_t>(type.num_bytes()));
    executor_.read(call.inputs.front(), bytes.data());
    logits.resize(static_cast<std::size_t>(type.num_elements()));
    widen(type.dtype, bytes.data(), logits.data(), type.num_elements());
  }
  bool after_call(const OpCall&, const LiveBuffers&) override { return true; }

  std::vector<float> logits;

 private:
  Executor& executor_;
};

}  // namespace trainer
