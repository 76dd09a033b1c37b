#include "engine/train/prediction_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

namespace trainer {
namespace {

using PredictionClock = std::chrono::steady_clock;

double prediction_seconds(PredictionClock::time_point begin) {
  return std::chrono::duration<double>(PredictionClock::now() - begin).count();
}

bool are_finite(std::span<const float> numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](float x) { return std::isfinite(x); });
}

/// Tells a sink of one input after the other, and counts them.
class PredictedRows {
 public:
  PredictedRows(const PredictionOutputs& outputs, PredictionSink& sink, PredictionTotals& totals)
      : outputs_(outputs), sink_(sink), totals_(totals), values_(static_cast<std::size_t>(outputs.num_values())) {
    if (outputs.kind == PredictedKind::class_map)
      mask_.resize(static_cast<std::size_t>(outputs.map_size[0] * outputs.map_size[1]));
  }

  void add(PredictionInput& input, std::span<const float> numbers) {
    if (outputs_.kind == PredictedKind::next_token) return add_window(input, numbers);
    if (!is_good(input, numbers)) return tell({.input = input});
    if (outputs_.kind == PredictedKind::class_map) {
      predicted_mask(outputs_, numbers, mask_);
      return tell({.input = input, .mask = mask_});
    }
    predicted_values(outputs_, numbers, values_);
    tell({.input = input, .values = values_});
  }

 private:
  static bool is_good(PredictionInput& input, std::span<const float> numbers) {
    if (input.error.empty() && !are_finite(numbers)) input.error = input.name + ": the model's output is not finite";
    return input.error.empty();
  }

  void tell(const PredictedInput& predicted) {
    const bool is_kept = sink_.take(predicted);
    ++totals_.num_inputs;
    totals_.num_bad += is_kept && predicted.input.error.empty() ? 0 : 1;
  }

  void add_window(PredictionInput& input, std::span<const float> numbers) {
    const bool goes_on = input.window.behind.has_value();
    if (has_failed_) {
      has_failed_ = goes_on;
      return;
    }
    const auto num_logits = static_cast<std::size_t>(outputs_.num_logits);
    const auto num_tokens = static_cast<std::size_t>(input.window.num_tokens);
    if (!is_good(input, numbers.first(num_tokens * num_logits))) {
      has_failed_ = goes_on;
      text_ = {};
      return tell({.input = input});
    }
    const auto logits_of = [&](std::size_t place) { return numbers.subspan(place * num_logits, num_logits); };
    for (std::size_t place = 0; place < num_tokens; ++place) {
      const bool is_last = place + 1 == num_tokens;
      if (is_last && !goes_on) break;
      text_.loss += token_loss(logits_of(place), is_last ? *input.window.behind : token_of(input, place + 1));
    }
    text_.num_tokens += input.window.num_tokens;
    if (goes_on) return;
    TextPrediction text = std::exchange(text_, {});
    if (text.has_loss()) text.loss /= static_cast<double>(text.num_tokens - 1);
    token_probabilities(logits_of(num_tokens - 1), values_);
    totals_.num_tokens += text.num_tokens;
    tell({.input = input, .values = values_, .text = text});
  }

  static std::int32_t token_of(const PredictionInput& window, std::size_t place) {
    std::int32_t token = 0;
    std::memcpy(&token, window.bytes.data() + place * sizeof token, sizeof token);
    return token;
  }

  const PredictionOutputs& outputs_;
  PredictionSink& sink_;
  PredictionTotals& totals_;
  std::vector<double> values_;
  std::vector<std::uint8_t> mask_;
  TextPrediction text_;      ///< of the windows before; its loss is their sum
  bool has_failed_ = false;  ///< what comes is the rest of a text that was told with an error
};

}  // namespace

PredictionTotals predict_inputs(Predictor& predictor, InputBatches& batches, const PredictionOutputs& outputs,
                                PredictionSink& sink) {
  require_internal(predictor.numbers_of_input() == outputs.numbers_of_input(), "outputs are those of the program");
  PredictionTotals totals;
  PredictedRows rows(outputs, sink, totals);
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
    for (std::size_t i = 0; i < count; ++i)
      rows.add(inputs[i], numbers.subspan(i * numbers_of_input, numbers_of_input));
  }
  totals.seconds = prediction_seconds(begin);
  return totals;
}

}  // namespace trainer
