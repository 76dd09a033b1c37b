#include "engine/plan/search/lighter_optimizer.h"

#include <fmt/format.h>

#include "engine/config/override_text.h"

namespace trainer {

std::optional<LighterOptimizer> lighten_optimizer(Experiment& changed) {
  OptimizerConfig& optimizer = changed.optimizer;
  if (optimizer.type == OptimizerType::sgd && optimizer.momentum == 0) return std::nullopt;
  const Experiment before = changed;
  LighterOptimizer lighter;
  std::vector<std::string_view> keys = {"optimizer.momentum", "optimizer.nesterov"};
  if (optimizer.type != OptimizerType::sgd) {
    // The whole section: keys that only Adam knows would be mistakes beside type sgd.
    const auto value_of = [&](std::string_view key) {
      const std::string text = override_of(key, before);
      return text.substr(text.find('=') + 1);
    };
    lighter.set.push_back(fmt::format("optimizer={{type: sgd, lr: {}, weight_decay: {}}}", value_of("optimizer.lr"),
                                      value_of("optimizer.weight_decay")));
    keys = {"memory.moments"};
    lighter.effect = Effect::no_moments;
    optimizer.decay_norms_and_biases = false;
    changed.memory.moments = MomentStorage::f32;
  }
  keys.emplace_back("schedule.momentum");  // there is none to cycle
  changed.schedule.momentum.clear();
  optimizer.type = OptimizerType::sgd;
  optimizer.momentum = 0;
  optimizer.nesterov = false;
  for (const std::string_view key : keys)
    if (std::optional<std::string> text = override_between(key, before, changed)) lighter.set.push_back(*text);
  return lighter;
}

}  // namespace trainer
