#include "engine/plan/search/minimal_change.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/config/fields/model_numbers.h"
#include "engine/config/key_effects.h"
#include "engine/config/key_values.h"

namespace trainer {
namespace {

/// Settings that are changed and dropped together.
struct ChangedUnit {
  std::function<bool(const Experiment& a, const Experiment& b)> differs;
  std::function<void(Experiment& to, const Experiment& from)> take;
};

using Keys = std::vector<std::string_view>;

ChangedUnit unit_of(const Keys& keys) {
  return {[keys](const Experiment& a, const Experiment& b) {
            return std::any_of(keys.begin(), keys.end(),
                               [&](std::string_view key) { return !has_same_value(key, a, b); });
          },
          [keys](Experiment& to, const Experiment& from) {
            for (const std::string_view key : keys) copy_value(key, from, to);
          }};
}

ChangedUnit unit_of_number(std::size_t index) {
  const auto number = [index](Experiment& experiment) -> std::int64_t& {
    return *numbers_of_model(experiment.layers)[index].value;
  };
  const auto value = [number](Experiment experiment) { return number(experiment); };
  return {[value](const Experiment& a, const Experiment& b) { return value(a) != value(b); },
          [number, value](Experiment& to, const Experiment& from) { number(to) = value(from); }};
}

/// The numbers of the model that differ, the smallest first.
std::vector<ChangedUnit> units_of_model(Experiment before, Experiment changed) {
  const std::vector<ModelNumber> old_numbers = numbers_of_model(before.layers);
  const std::vector<ModelNumber> new_numbers = numbers_of_model(changed.layers);
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < old_numbers.size(); ++i)
    if (*old_numbers[i].value != *new_numbers[i].value) indices.push_back(i);
  std::stable_sort(indices.begin(), indices.end(),
                   [&](std::size_t a, std::size_t b) { return *old_numbers[a].value < *old_numbers[b].value; });
  std::vector<ChangedUnit> units;
  units.reserve(indices.size());
  for (const std::size_t index : indices) units.push_back(unit_of_number(index));
  return units;
}

const Keys update_cut = {"train.batch_size", "train.accumulation_steps"};

Keys keys_of_optimizer() {
  Keys keys;
  for (const KeyEffects& each : key_effects())
    if (each.key.starts_with("optimizer.")) keys.emplace_back(each.key);
  return keys;
}

/// In the order in which they are given up.
std::vector<ChangedUnit> units_of_settings() {
  const std::vector<Keys> units = {keys_of_optimizer(),
                                   {"memory.moments"},
                                   {"memory.master_weights"},
                                   {"memory.gradients"},
                                   {"train.amp"},
                                   update_cut,
                                   {"train.checkpointing"},
                                   {"memory.recompute_cheap"},
                                   {"memory.workspace_limit"},
                                   {"memory.chunked_loss"},
                                   {"parallel.prefetch"},
                                   {"parallel.bucket_size"},
                                   {"parallel.overlap"},
                                   {"parallel.shard"},
                                   {"train.eval_batch_size"},
                                   {"memory.update"},
                                   {"memory.expandable_segments"},
                                   {"memory.allocator"}};
  std::vector<ChangedUnit> result;
  result.reserve(units.size());
  for (const Keys& keys : units) result.push_back(unit_of(keys));
  return result;
}

/// A rule of the configuration (engine/config/experiment_rules.cpp) about two units.
struct UnitRule {
  bool (*is_broken)(const Experiment& experiment);
  ChangedUnit a, b;
};

std::vector<UnitRule> rules_between_units() {
  const ChangedUnit amp = unit_of({"train.amp"}), update = unit_of({"memory.update"});
  return {
      {[](const Experiment& e) { return e.memory.gradients == GradientStorage::half && e.train.amp == Amp::off; },
       unit_of({"memory.gradients"}), amp},
      {[](const Experiment& e) { return !e.memory.master_weights && e.train.amp != Amp::bf16; },
       unit_of({"memory.master_weights"}), amp},
      {[](const Experiment& e) {
         return e.memory.moments == MomentStorage::eight_bit && e.optimizer.type == OptimizerType::sgd;
       },
       unit_of({"memory.moments"}), unit_of(keys_of_optimizer())},
      {[](const Experiment& e) { return e.memory.update == UpdatePlace::in_backward && e.train.amp == Amp::fp16; },
       update, amp},
      {[](const Experiment& e) {
         return e.memory.update == UpdatePlace::in_backward && e.train.accumulation_steps > 1;
       },
       update, unit_of(update_cut)},
      {[](const Experiment& e) { return e.memory.expandable_segments && e.memory.allocator == AllocatorKind::planned; },
       unit_of({"memory.expandable_segments"}), unit_of({"memory.allocator"})},
  };
}

/// Sets back what a rule refuses; `before` keeps every rule.
void keep_rules(Experiment& changed, const Experiment& before) {
  const std::vector<UnitRule> rules = rules_between_units();
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (!rules[i].is_broken(changed)) continue;
    rules[i].a.take(changed, before);
    rules[i].b.take(changed, before);
    i = static_cast<std::size_t>(-1);  // from the first again: another may be broken now
  }
}

}  // namespace

Experiment minimal_change(const Experiment& before, Experiment changed,
                          const std::function<bool(const Experiment&)>& is_enough) {
  std::vector<ChangedUnit> units = units_of_model(before, changed);
  for (ChangedUnit& unit : units_of_settings()) units.push_back(std::move(unit));
  std::erase_if(units, [&](const ChangedUnit& unit) { return !unit.differs(before, changed); });
  if (units.size() <= 1) return changed;
  // Until all have been tried since the last was dropped: memory does not always shrink with what is saved.
  std::size_t num_tried = 0;
  for (std::size_t i = 0; num_tried < units.size(); i = (i + 1) % units.size()) {
    ++num_tried;
    if (!units[i].differs(before, changed)) continue;
    Experiment fewer = changed;
    units[i].take(fewer, before);
    keep_rules(fewer, before);
    const bool changes_any =
        std::any_of(units.begin(), units.end(), [&](const ChangedUnit& unit) { return unit.differs(before, fewer); });
    if (!changes_any || !is_enough(fewer)) continue;
    changed = std::move(fewer);
    num_tried = 0;
  }
  return changed;
}

}  // namespace trainer
