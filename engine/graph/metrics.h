#pragma once

#include <optional>

#include "engine/config/experiment.h"
#include "engine/graph/data_description.h"
#include "engine/ops/op.h"

namespace trainer {

/// What evaluations count beside the loss.
enum class Counted : std::uint8_t { nothing, confusion, errors };

/// A confusion matrix as train.confusion_matrix says, of targets that are classes or whose loss takes them for such;
/// the errors of other numbers; nothing without evaluations.
Counted counted_by(const Experiment& experiment, const DataDescription& data);

/// Whether the loss is the cross-entropy of tokens alone, so that e to it is the perplexity.
bool tells_perplexity(const Experiment& experiment, const DataDescription& data);

/// The op that counts: its counts are its last input. Throws ConfigError where they would take too much memory.
Op counting_op(Counted counted, const Experiment& experiment, const TensorType& prediction, const TensorType& targets);

/// Classes that the counts tell apart: those of the data, or whether a number is above a half.
std::int64_t num_counted_classes(const DataDescription& data);

/// Throws ConfigError where evaluations of this data do not tell what checkpoint.best names.
void check_best_metric(const Experiment& experiment, const DataDescription& data);

}  // namespace trainer
