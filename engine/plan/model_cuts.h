#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/config/experiment.h"

namespace trainer {

/// A smaller model.
struct ModelCut {
  Experiment experiment;
  std::vector<std::string> set;  ///< overrides that make it, without those of the experiment it was cut from
  std::string what;
};

/// Whether an experiment fits.
using Fits = std::function<bool(const Experiment&)>;

/// One number of the model lowered as little as makes it fit, of the few that are largest; the smallest cuts first, at
/// most three.
std::vector<ModelCut> single_cuts(const Experiment& experiment, const Fits& fits);

/// Every layer but the last divided by the same power of two, the smallest that fits; at most one, and only for models
/// of few layers, whose overrides can still be read.
std::vector<ModelCut> even_cut(const Experiment& experiment, const Fits& fits);

}  // namespace trainer
