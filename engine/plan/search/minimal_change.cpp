#include "engine/plan/search/minimal_change.h"

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/config/fields/model_numbers.h"

namespace trainer {
namespace {

/// Settings that are changed and dropped together.
struct ChangedUnit {
  std::function<bool(const Experiment& a, const Experiment& b)> differs;
  std::function<void(Experiment& to, const Experiment& from)> take;
};

/// Of the settings that `tie` refers to.
template <typename Tie>
ChangedUnit unit_of(Tie tie) {
  return {[tie](const Experiment& a, const Experiment& b) { return tie(a) != tie(b); },
          [tie](Experiment& to, const Experiment& from) { tie(to) = tie(from); }};
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

const auto tie_amp = [](auto& e) { return std::tie(e.train.amp); };
const auto tie_gradients = [](auto& e) { return std::tie(e.memory.gradients); };
const auto tie_masters = [](auto& e) { return std::tie(e.memory.master_weights); };
const auto tie_moments = [](auto& e) { return std::tie(e.memory.moments); };
const auto tie_update = [](auto& e) { return std::tie(e.memory.update); };
const auto tie_allocator = [](auto& e) { return std::tie(e.memory.allocator); };
const auto tie_expandable = [](auto& e) { return std::tie(e.memory.expandable_segments); };
const auto tie_split = [](auto& e) { return std::tie(e.train.batch_size, e.train.accumulation_steps); };
const auto tie_optimizer = [](auto& e) {
  auto& optimizer = e.optimizer;
  return std::tie(optimizer.type, optimizer.lr, optimizer.momentum, optimizer.nesterov, optimizer.weight_decay,
                  optimizer.beta1, optimizer.beta2, optimizer.eps, optimizer.decay_norms_and_biases);
};
const auto tie_checkpointing = [](auto& e) {
  auto& checkpointing = e.train.checkpointing;
  return std::tie(checkpointing.type, checkpointing.every, checkpointing.layers, checkpointing.budget);
};

/// In the order in which they are given up.
std::vector<ChangedUnit> units_of_settings() {
  return {unit_of(tie_optimizer),
          unit_of(tie_moments),
          unit_of(tie_masters),
          unit_of(tie_gradients),
          unit_of(tie_amp),
          unit_of(tie_split),
          unit_of(tie_checkpointing),
          unit_of([](auto& e) { return std::tie(e.memory.recompute_cheap); }),
          unit_of([](auto& e) { return std::tie(e.memory.workspace_limit); }),
          unit_of([](auto& e) { return std::tie(e.memory.chunked_loss); }),
          unit_of([](auto& e) { return std::tie(e.train.eval_batch_size); }),
          unit_of(tie_update),
          unit_of(tie_expandable),
          unit_of(tie_allocator)};
}

/// A rule of the configuration (engine/config/experiment_rules.cpp) about two units.
struct UnitRule {
  bool (*is_broken)(const Experiment& experiment);
  ChangedUnit a, b;
};

std::vector<UnitRule> rules_between_units() {
  return {
      {[](const Experiment& e) { return e.memory.gradients == GradientStorage::half && e.train.amp == Amp::off; },
       unit_of(tie_gradients), unit_of(tie_amp)},
      {[](const Experiment& e) { return !e.memory.master_weights && e.train.amp != Amp::bf16; }, unit_of(tie_masters),
       unit_of(tie_amp)},
      {[](const Experiment& e) {
         return e.memory.moments == MomentStorage::eight_bit && e.optimizer.type == OptimizerType::sgd;
       },
       unit_of(tie_moments), unit_of(tie_optimizer)},
      {[](const Experiment& e) { return e.memory.update == UpdatePlace::in_backward && e.train.amp == Amp::fp16; },
       unit_of(tie_update), unit_of(tie_amp)},
      {[](const Experiment& e) {
         return e.memory.update == UpdatePlace::in_backward && e.train.accumulation_steps > 1;
       },
       unit_of(tie_update), unit_of(tie_split)},
      {[](const Experiment& e) { return e.memory.expandable_segments && e.memory.allocator == AllocatorKind::planned; },
       unit_of(tie_expandable), unit_of(tie_allocator)},
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
