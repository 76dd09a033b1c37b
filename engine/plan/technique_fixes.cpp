#include "engine/plan/technique_fixes.h"

#include <algorithm>
#include <utility>

namespace trainer {
namespace {

class TechniqueList {
 public:
  explicit TechniqueList(const Experiment& experiment) : experiment_(experiment) {
    together_.changed = experiment;
    together_.what = "everything that changes no result together";
    together_.is_combination = true;
  }

  template <typename Apply>
  void add(bool applies, Apply change, const std::vector<std::string>& words, std::string what, Numbers numbers) {
    if (!applies) return;
    if (numbers != together_.numbers) finish_together("everything that holds less memory together");
    TechniqueFix fix{experiment_, words, std::move(what), numbers};
    change(fix.changed);
    fixes_.push_back(std::move(fix));
    change(together_.changed);
    together_.set.insert(together_.set.end(), words.begin(), words.end());
    together_.numbers = numbers;
    ++num_together_;
  }

  std::vector<TechniqueFix> finish() && {
    finish_together("");
    // What several of them set is said once.
    for (TechniqueFix& fix : fixes_) {
      std::vector<std::string> once;
      for (std::string& word : fix.set)
        if (std::find(once.begin(), once.end(), word) == once.end()) once.push_back(std::move(word));
      fix.set = std::move(once);
    }
    return std::move(fixes_);
  }

 private:
  void finish_together(std::string next) {
    if (num_together_ > 1) fixes_.push_back(together_);
    together_.what = std::move(next);
  }

  const Experiment& experiment_;
  TechniqueFix together_;
  int num_together_ = 0;
  std::vector<TechniqueFix> fixes_;
};

}  // namespace

std::vector<TechniqueFix> technique_fixes(const Experiment& experiment) {
  using Type = CheckpointingConfig::Type;
  const MemoryConfig& memory = experiment.memory;
  const TrainConfig& train = experiment.train;
  const bool updates_alone = train.clip_norm <= 0 && train.accumulation_steps == 1 && train.amp != Amp::fp16;
  TechniqueList list(experiment);
  list.add(
      memory.allocator == AllocatorKind::caching && !memory.expandable_segments,
      [](Experiment& changed) { changed.memory.allocator = AllocatorKind::planned; }, {"memory.allocator=planned"},
      "every buffer at a fixed place: nothing lies idle between them", Numbers::same_bits);
  list.add(
      train.checkpointing.type != Type::automatic,
      [](Experiment& changed) { changed.train.checkpointing = {.type = Type::automatic, .every = 0, .layers = {}}; },
      {"train.checkpointing=auto"}, "activations computed again instead of kept: as many as must be",
      Numbers::same_bits);
  list.add(
      memory.update == UpdatePlace::at_end && updates_alone,
      [](Experiment& changed) { changed.memory.update = UpdatePlace::in_backward; }, {"memory.update=in_backward"},
      "each gradient used up and released as soon as it is there", Numbers::same_bits);
  list.add(
      train.amp == Amp::off, [](Experiment& changed) { changed.train.amp = Amp::bf16; }, {"train.amp=bf16"},
      "activations and products in 16 bit", Numbers::other);
  list.add(
      memory.moments == MomentStorage::f32 && experiment.optimizer.type != OptimizerType::sgd,
      [](Experiment& changed) { changed.memory.moments = MomentStorage::eight_bit; }, {"memory.moments=8bit"},
      "the optimizer's moments in 8 bit", Numbers::other);
  std::vector<std::string> sixteen_bit;
  if (train.amp == Amp::off) sixteen_bit.emplace_back("train.amp=bf16");
  if (memory.gradients == GradientStorage::f32) sixteen_bit.emplace_back("memory.gradients=16bit");
  if (memory.master_weights) sixteen_bit.emplace_back("memory.master_weights=false");
  list.add(
      train.amp != Amp::fp16 && !sixteen_bit.empty(),
      [](Experiment& changed) {
        changed.train.amp = Amp::bf16;
        changed.memory.gradients = GradientStorage::half;
        changed.memory.master_weights = false;
      },
      sixteen_bit, "weights and gradients in 16 bit too; weights are rounded at random", Numbers::other);
  return std::move(list).finish();
}

}  // namespace trainer
