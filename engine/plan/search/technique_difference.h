#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/data_description.h"
#include "engine/plan/search/change.h"

namespace trainer {

/// How two experiments differ that train the same model on the same data with the same optimizer.
struct TechniqueDifference {
  std::vector<std::string> set;   ///< overrides that make the first the second: "train.amp=bf16"
  std::vector<ChangePart> parts;  ///< what they do; empty: nothing differs
  NumbersEffect numbers = NumbersEffect::same_bits;
};

/// Reads what the techniques of `memory:` and `train:` set: the cut of a batch, precision, storage, recomputation and
/// placement. Nothing else may differ.
TechniqueDifference find_technique_difference(const Experiment& before, const Experiment& after,
                                              const DataDescription& data);

/// Whether a key is one that it sets: a technique, where it is declared (KeyEffects::technique_numbers).
bool is_technique_key(std::string_view key);

/// Whether each update sees as many samples in one as in the other.
bool keeps_samples(const Experiment& before, const Experiment& after, const DataDescription& data);

}  // namespace trainer
