#pragma once

#include <cstdint>
#include <span>

#include "datasets/prediction/input_batches.h"
#include "engine/train/prediction_outputs.h"
#include "engine/train/predictor.h"

namespace trainer {

/// What the tokens of a text are to a model.
struct TextPrediction {
  std::int64_t num_tokens = 0;
  double loss = 0;  ///< the mean over all but the first; of one token there is none
  bool has_loss() const { return num_tokens > 1; }
};

/// An input and what was predicted for it. Of a text that is several inputs, windows, the last.
struct PredictedInput {
  const PredictionInput& input;             ///< with its error, where there is no prediction
  std::span<const double> values = {};      ///< PredictionOutputs::num_values() of them
  std::span<const std::uint8_t> mask = {};  ///< of class_map in their place: (height, width)
  TextPrediction text = {};                 ///< of next_token
};

/// Where predictions go, one by one and in the order of the inputs.
class PredictionSink {
 public:
  virtual ~PredictionSink() = default;
  /// False where it could not be kept for a reason of its own, which counts as an error of the input. What keeps all
  /// others from being kept as well is thrown.
  virtual bool take(const PredictedInput& predicted) = 0;
};

struct PredictionTotals {
  std::int64_t num_inputs = 0;  ///< a text is one
  std::int64_t num_bad = 0;     ///< of them, those with an error
  std::int64_t num_tokens = 0;  ///< of texts that were predicted
  double seconds = 0;           ///< from the first batch read to the last prediction kept
  double data_seconds = 0;      ///< of them, waiting for batches to be read
};

/// Predicts all that comes: a program's parameters have their values, `batches` have no more inputs than it was
/// compiled for, and `outputs` are its. An output that is not finite is an error of its input; of a text's, what fills
/// its last window up does not count, and one window with an error is the whole text's. `num_threads` read the logits
/// of texts. Holds what one batch takes, however many there are. Throws what the three throw.
PredictionTotals predict_inputs(Predictor& predictor, InputBatches& batches, const PredictionOutputs& outputs,
                                PredictionSink& sink, int num_threads = 1);

}  // namespace trainer
