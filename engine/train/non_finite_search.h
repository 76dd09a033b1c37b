#pragma once

#include <string>
#include <vector>

#include "engine/train/executor.h"

namespace trainer {

/// A tensor that holds an infinity or a NaN.
struct NonFinite {
  std::string layer;   ///< label, "2 (conv2d)"; "input" for the batch
  std::string tensor;  ///< buffer or parameter name
};

/// Looks for the first value that is not finite while a routine runs: in the batch, then in what each forward call
/// wrote. Running statistics are not looked at: the failed pass has spoilt them, they are never the origin.
class NonFiniteSearch final : public CallObserver {
 public:
  NonFiniteSearch(Executor& executor, const Routine& routine)
      : executor_(executor), routine_(routine), runs_on_(has_parts(executor.program())) {}

  bool after_call(const OpCall& call, const LiveBuffers& live) override;

  /// Whether the routine is run to its end all the same: its ops communicate, and another rank may have found nothing.
  bool runs_on() const { return runs_on_; }
  bool found() const { return !result_.tensor.empty(); }
  const NonFinite& result() const { return result_; }

  /// Looks through the trainable parameters; true where one is not finite.
  bool search_parameters();

 private:
  bool is_input(BufferId buffer) const;
  bool holds_non_finite(BufferId id);

  Executor& executor_;
  const Routine& routine_;
  const bool runs_on_;
  std::vector<std::byte> staging_;
  NonFinite result_;
};

}  // namespace trainer
