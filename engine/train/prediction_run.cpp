#include "engine/train/prediction_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>
#include <vector>

namespace trainer {
namespace {

using PredictionClock = std::chrono::steady_clock;

double prediction_seconds(PredictionClock::time_point begin) {
  return std::chrono::duration<double>(PredictionClock::now() - begin).count();
}

/// Tells a sink of one input after the other.
class PredictedRows {
 public:
  PredictedRows(const PredictionOutputs& outputs, PredictionSink& sink)
      : outputs_(outputs), sink_(sink), values_(outputs.names.size()) {
    if (outputs.kind == PredictedKind::class_map)
      mask_.resize(static_cast<std::size_t>(outputs.map_size[0] * outputs.map_size[1]));
  }

  /// Whether it was predicted, and kept.
  bool add(PredictionInput& input, std::span<const float> numbers) {
    const bool is_finite = std::all_of(numbers.begin(), numbers.end(), [](float x) { return std::isfinite(x); });
    if (input.error.empty() && !is_finite) input.error = input.name + ": the model's output is not finite";
    if (!input.error.empty()) {
      sink_.take({.input = input});
      return false;
    }
    if (outputs_.kind == PredictedKind::class_map) {
      predicted_mask(outputs_, numbers, mask_);
      return sink_.take({.input = input, .mask = mask_});
    }
    predicted_values(outputs_, numbers, values_);
    return sink_.take({.input = input, .values = values_});
  }

 private:
  const PredictionOutputs& outputs_;
  PredictionSink& sink_;
  std::vector<double> values_;
  std::vector<std::uint8_t> mask_;
};

}  // namespace

PredictionTotals predict_inputs(Predictor& predictor, InputBatches& batches, const PredictionOutputs& outputs,
                                PredictionSink& sink) {
  require_internal(predictor.numbers_of_input() == outputs.numbers_of_input(), "outputs are those of the program");
  PredictionTotals totals;
  PredictedRows rows(outputs, sink);
  std::vector<PredictionInput> inputs(static_cast<std::size_t>(predictor.batch_size()));
  const auto numbers_of_input = static_cast<std::size_t>(predictor.numbers_of_input());
  const PredictionClock::time_point begin = PredictionClock::now();
  while (true) {
    const PredictionClock::time_point waiting = PredictionClock::now();
    InputBatch* const batch = batches.next();
    totals.data_seconds += prediction_seconds(waiting);
    if (batch == nullptr) break;
    const auto count = static_cast<std::size_t>(batch->batch.num_samples);
    const std::span<const float> numbers = predictor.predict(batch->batch, [&] {
      std::swap(inputs, batch->inputs);
      batches.release();
    });
    for (std::size_t i = 0; i < count; ++i) {
      const bool is_good = rows.add(inputs[i], numbers.subspan(i * numbers_of_input, numbers_of_input));
      ++totals.num_inputs;
      totals.num_bad += is_good ? 0 : 1;
    }
  }
  totals.seconds = prediction_seconds(begin);
  return totals;
}

}  // namespace trainer
