#include "engine/train/prediction_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>
#include <vector>

#include "engine/train/token_losses.h"

namespace trainer {
namespace {

using PredictionClock = std::chrono::steady_clock;

double prediction_seconds(PredictionClock::time_point begin) {
  return std::chrono::duration<double>(PredictionClock::now() - begin).count();
}

/// Tells a sink of one input after the other, and counts them.
class PredictedRows {
 public:
  PredictedRows(const PredictionOutputs& outputs, PredictionSink& sink, PredictionTotals& totals, int num_threads)
      : outputs_(outputs),
        sink_(sink),
        totals_(totals),
        values_(static_cast<std::size_t>(outputs.num_values())),
        losses_(outputs, num_threads) {
    if (outputs.kind == PredictedKind::class_map)
      mask_.resize(static_cast<std::size_t>(outputs.map_size[0] * outputs.map_size[1]));
  }

  void add_batch(std::span<PredictionInput> inputs, std::span<const float> numbers) {
    const auto each = static_cast<std::size_t>(outputs_.numbers_of_input());
    const bool are_windows = outputs_.kind == PredictedKind::next_token;
    if (are_windows) losses_.compute(inputs, numbers);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::span<const float> its_numbers = numbers.subspan(i * each, each);
      if (are_windows)
        add_window(inputs[i], its_numbers, losses_.of_window(i, inputs[i].window.num_tokens));
      else
        add(inputs[i], its_numbers);
    }
  }

 private:
  static bool is_good(PredictionInput& input, bool is_finite) {
    if (input.error.empty() && !is_finite) input.error = input.name + ": the model's output is not finite";
    return input.error.empty();
  }

  void tell(const PredictedInput& predicted) {
    const bool is_kept = sink_.take(predicted);
    ++totals_.num_inputs;
    totals_.num_bad += is_kept && predicted.input.error.empty() ? 0 : 1;
  }

  void add(PredictionInput& input, std::span<const float> numbers) {
    if (!is_good(input, std::all_of(numbers.begin(), numbers.end(), [](float x) { return std::isfinite(x); })))
      return tell({.input = input});
    if (outputs_.kind == PredictedKind::class_map) {
      predicted_mask(outputs_, numbers, mask_);
      return tell({.input = input, .mask = mask_});
    }
    predicted_values(outputs_, numbers, values_);
    tell({.input = input, .values = values_});
  }

  void add_window(PredictionInput& input, std::span<const float> numbers, std::span<const double> losses) {
    const bool goes_on = input.window.behind.has_value();
    if (has_failed_) {
      has_failed_ = goes_on;
      return;
    }
    double loss = 0;
    if (input.error.empty())
      for (const double of_token : losses) loss += of_token;
    if (!is_good(input, std::isfinite(loss))) {
      has_failed_ = goes_on;
      text_ = {};
      return tell({.input = input});
    }
    text_.loss += loss;
    text_.num_tokens += input.window.num_tokens;
    if (goes_on) return;
    TextPrediction text = std::exchange(text_, {});
    if (text.has_loss()) text.loss /= static_cast<double>(text.num_tokens - 1);
    const auto num_logits = static_cast<std::size_t>(outputs_.num_logits);
    token_probabilities(numbers.subspan((losses.size() - 1) * num_logits, num_logits), values_);
    totals_.num_tokens += text.num_tokens;
    tell({.input = input, .values = values_, .text = text});
  }

  const PredictionOutputs& outputs_;
  PredictionSink& sink_;
  PredictionTotals& totals_;
  std::vector<double> values_;
  std::vector<std::uint8_t> mask_;
  TokenLosses losses_;
  TextPrediction text_;      ///< of the windows before; its loss is their sum
  bool has_failed_ = false;  ///< what comes is the rest of a text that was told with an error
};

}  // namespace

PredictionTotals predict_inputs(Predictor& predictor, InputBatches& batches, const PredictionOutputs& outputs,
                                PredictionSink& sink, int num_threads) {
  require_internal(predictor.numbers_of_input() == outputs.numbers_of_input(), "outputs are those of the program");
  PredictionTotals totals;
  PredictedRows rows(outputs, sink, totals, num_threads);
  std::vector<PredictionInput> inputs(static_cast<std::size_t>(predictor.batch_size()));
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
    rows.add_batch(std::span(inputs).first(count), numbers);
  }
  totals.seconds = prediction_seconds(begin);
  return totals;
}

}  // namespace trainer
