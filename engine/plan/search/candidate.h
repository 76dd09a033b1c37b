#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "engine/config/experiment.h"
#include "engine/graph/data_description.h"

namespace trainer {

/// An experiment and the data it would train on, which keys of `data` change too.
struct Candidate {
  Experiment experiment;
  DataDescription data;
  bool is_computed = false;  ///< expressions read the value: what another one changes is not known
};

/// The experiment with a value in the place that is searched; nothing where no such experiment is (a rule refuses it).
/// Every key that differs between two values holds the value itself.
using WithValue = std::function<std::optional<Candidate>(std::int64_t value)>;

}  // namespace trainer
