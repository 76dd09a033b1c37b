#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "engine/config/experiment.h"

namespace trainer {

/// Whether an experiment fits.
using Fits = std::function<bool(const Experiment&)>;

/// One number of the model lowered as little as was found to make it fit, of the few that are largest; the smallest
/// cuts first, at most three. None where the experiment fits as it is.
std::vector<Experiment> single_cuts(const Experiment& experiment, const Fits& fits);

/// Every layer but the last divided by the same power of two, the smallest that fits, and of these layers only as many
/// as must be, several; only for models of few layers, whose overrides can still be read. Nothing where the experiment
/// fits as it is.
std::optional<Experiment> even_cut(const Experiment& experiment, const Fits& fits);

}  // namespace trainer
