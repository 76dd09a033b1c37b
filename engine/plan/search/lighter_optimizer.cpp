#include "engine/plan/search/lighter_optimizer.h"

#include <fmt/format.h>

namespace trainer {

std::optional<LighterOptimizer> lighten_optimizer(Experiment& changed) {
  OptimizerConfig& optimizer = changed.optimizer;
  if (optimizer.type == OptimizerType::sgd && optimizer.momentum == 0) return std::nullopt;
  LighterOptimizer lighter;
  if (optimizer.type == OptimizerType::sgd) {
    lighter.set.emplace_back("optimizer.momentum=0");
    if (optimizer.nesterov) lighter.set.emplace_back("optimizer.nesterov=false");
  } else {
    // The whole section: keys that only Adam knows would be mistakes beside type sgd.
    lighter.set.push_back(
        fmt::format("optimizer={{type: sgd, lr: {}, weight_decay: {}}}", optimizer.lr, optimizer.weight_decay));
    if (changed.memory.moments == MomentStorage::eight_bit) lighter.set.emplace_back("memory.moments=f32");
    lighter.effect = Effect::no_moments;
    optimizer.decay_norms_and_biases = false;
    changed.memory.moments = MomentStorage::f32;
  }
  optimizer.type = OptimizerType::sgd;
  optimizer.momentum = 0;
  optimizer.nesterov = false;
  return lighter;
}

}  // namespace trainer
