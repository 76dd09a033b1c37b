#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/config/experiment.h"

namespace trainer {

/// Whether an experiment fits.
using Fits = std::function<bool(const Experiment&)>;

/// A parameter of the model's file or of a block, lowered to the largest value that was found to fit.
struct ParameterCut {
  Experiment experiment;
  std::string set;  ///< "model.with.width=48"
};

enum class CutAnswer : std::uint8_t { fits, does_not_fit, cannot_be };
using TryCut = std::function<CutAnswer(const Experiment&)>;

/// Experiments whose model is written out from one lower parameter, the smallest cuts first, at most three. The last
/// layer, whose width the data says, stays as wide. Values that the model does not take (a quotient that is no integer)
/// are passed over. None where the experiment fits as it is, or was not read.
std::vector<ParameterCut> parameter_cuts(const Experiment& experiment, const TryCut& try_cut);

/// One number of the model lowered as little as was found to make it fit, of the few that are largest; the smallest
/// cuts first, at most three. None where the experiment fits as it is.
std::vector<Experiment> single_cuts(const Experiment& experiment, const Fits& fits);

/// Every layer but the last divided by the same power of two, the smallest that fits, and of these layers only as many
/// as must be, several; only for models of few layers, whose overrides can still be read. Nothing where the experiment
/// fits as it is.
std::optional<Experiment> even_cut(const Experiment& experiment, const Fits& fits);

}  // namespace trainer
