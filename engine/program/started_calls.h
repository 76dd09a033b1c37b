#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "engine/program/schedule.h"

namespace trainer {

/// Exchanges of one routine that run beside what follows them: Note [Started exchanges] in
/// engine/ops/finish_exchange.h. What they use lives until they are finished. Since they run one after the other, they
/// have one workspace, which is there while any is on its way.
class StartedCalls {
 public:
  /// All must outlive it.
  StartedCalls(Program& program, Scheduler& scheduler, Routine& routine)
      : program_(program), scheduler_(scheduler), routine_(routine) {}

  /// Appends the start of `op`. The number that finish() takes.
  std::size_t start(Op op, std::vector<BufferId> inputs, std::vector<BufferId> outputs, LayerId layer, Phase phase);
  /// The buffer is released once the last that was started has been finished.
  void release_behind_last(BufferId buffer, LayerId layer) { calls_.back().released.emplace_back(buffer, layer); }
  /// Appends the wait for that one and those before it, and what is released behind them; nothing where they have been
  /// waited for.
  void finish(std::size_t number, LayerId layer, Phase phase);
  void finish_all(LayerId layer, Phase phase) {
    if (!calls_.empty()) finish(calls_.size() - 1, layer, phase);
  }

 private:
  struct Call {
    std::vector<BufferId> operands;
    std::vector<std::pair<BufferId, LayerId>> released;
  };

  BufferId workspace_for(const Op& op, Phase phase);

  Program& program_;
  Scheduler& scheduler_;
  Routine& routine_;
  std::vector<Call> calls_;
  std::size_t num_finished_ = 0;
  BufferId workspace_ = -1;  ///< as large as the largest needs
  bool has_workspace_ = false;
};

}  // namespace trainer
