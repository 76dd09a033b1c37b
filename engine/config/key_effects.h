#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainer {

/// What becomes of the numbers of a run that is changed.
enum class NumbersEffect : std::uint8_t {
  same_bits,      ///< bit for bit the same
  same_rounding,  ///< the same sums in another order: they differ as much as rounding does
  other,          ///< another result: another batch, precision, optimizer or model
};

/// What another value of a key means for a run that is resumed with it.
enum class ResumeEffect : std::uint8_t {
  changes_numbers,  ///< it would go on to another result
  harmless,
  sets_length,  ///< harmless where no learning rate follows the length of the run
};

/// What a key of the experiment means beside its value.
struct KeyEffects {
  std::string key;  ///< dotted: "train.batch_size"; of a layer: "kernel"
  ResumeEffect on_resume = ResumeEffect::changes_numbers;
  /// Of a key that the searches for what fits may set: what it makes of the numbers, whatever else it changes.
  std::optional<NumbersEffect> technique_numbers;
  bool is_of_device = false;  ///< devices with another value of it are different ones
};

/// Of every key outside the layers, as declared in engine/config/fields, in the order of `config show`.
const std::vector<KeyEffects>& key_effects();

/// Null where there is no such key.
const KeyEffects* find_key_effects(std::string_view key);

}  // namespace trainer
