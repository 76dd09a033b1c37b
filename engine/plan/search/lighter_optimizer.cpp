#include "engine/plan/search/lighter_optimizer.h"

#include <fmt/format.h>

namespace trainer {

bool lighten_optimizer(Experiment& changed, std::vector<std::string>& set, std::string& what) {
  OptimizerConfig& optimizer = changed.optimizer;
  if (optimizer.type == OptimizerType::sgd && optimizer.momentum == 0) return false;
  if (optimizer.type == OptimizerType::sgd) {
    set.emplace_back("optimizer.momentum=0");
    if (optimizer.nesterov) set.emplace_back("optimizer.nesterov=false");
    what = "no momentum: no optimizer state";
  } else {
    // The whole section: keys that only Adam knows would be mistakes beside type sgd.
    set.push_back(
        fmt::format("optimizer={{type: sgd, lr: {}, weight_decay: {}}}", optimizer.lr, optimizer.weight_decay));
    if (changed.memory.moments == MomentStorage::eight_bit) set.emplace_back("memory.moments=f32");
    what = "SGD: no moments to keep (choose its lr anew)";
    optimizer.decay_norms_and_biases = false;
    changed.memory.moments = MomentStorage::f32;
  }
  optimizer.type = OptimizerType::sgd;
  optimizer.momentum = 0;
  optimizer.nesterov = false;
  return true;
}

}  // namespace trainer
