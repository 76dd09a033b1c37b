#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/config/experiment.h"

namespace trainer {

/// What becomes of the numbers of a run.
enum class Numbers : std::uint8_t {
  same_bits,      ///< bit for bit the same
  same_rounding,  ///< the same sums in another order: they differ as much as rounding does
  other,          ///< another result: another batch, precision, optimizer or model
};

/// A change of an experiment that was planned. Fixes, choices and adaptations are lists of these.
struct Change {
  Experiment experiment;         ///< as changed
  std::vector<std::string> set;  ///< overrides to paste: "train.batch_size=48"
  std::string what;              ///< "a smaller batch; one sample more does not fit"
  Numbers numbers = Numbers::other;
  bool fits = true;
  std::int64_t peak_reserved = 0;  ///< of the whole run; without a bound where it does not fit
  std::int64_t capacity = 0;  ///< it was planned under: higher than asked for only where the change raises the limit
  double step_seconds = 0;    ///< predicted, of one update
  double samples_per_second = 0;    ///< predicted
  double relative_step_time = 1.0;  ///< seconds a sample against the experiment as it is; 1: unknown

  bool same_result() const { return numbers != Numbers::other; }
};

}  // namespace trainer
