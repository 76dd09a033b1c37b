#pragma once

#include <optional>

#include "datasets/arrays/array_source.h"
#include "engine/config/experiment.h"

namespace trainer {

/// The arrays of samples and of their targets.
struct ChosenArrays {
  ArraySource input, target;
};

/// The files that `data.train` and its keys name, and those of validation; empty paths where there are none.
struct ArrayPaths {
  std::string input, target;  ///< the same file where it holds both
};
ArrayPaths train_array_paths(const DataConfig& config);
std::optional<ArrayPaths> validation_array_paths(const DataConfig& config);

/// Note [Which array is which]
/// `data.fields` names them, for validation `validation_input` and `validation_target`, which are the names of training
/// where the file has those. Of a file with one array (.npy), that is it; of one with two, of which one is named, the
/// other is the other. Without names exactly two are told by what they are usually called: x and y, images and labels,
/// features and targets and the like, in any case and with train, test or val beside it. Everything else is a
/// ConfigError that lists the arrays with types and shapes.
ChosenArrays choose_train_arrays(const DataConfig& config);
ChosenArrays choose_validation_arrays(const DataConfig& config, const ArrayPaths& paths);

/// The array of samples in a file that a model predicts from: the only one, that of data.fields, or of several the one
/// that samples are usually called. Throws ConfigError, DataError.
ArraySource choose_prediction_array(const DataConfig& config, const std::string& path);

}  // namespace trainer
