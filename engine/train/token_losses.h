#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "datasets/prediction/prediction_input.h"
#include "engine/train/prediction_outputs.h"

namespace trainer {

/// What the tokens of a batch of windows cost a model that predicts next tokens. A vocabulary is tens of thousands of
/// logits behind each token, so several threads read them where they are many; the numbers are the same for any count.
class TokenLosses {
 public:
  TokenLosses(const PredictionOutputs& outputs, int num_threads);

  /// Of windows without an error, whose logits are `numbers`. Throws DeviceError where a thread cannot be started.
  void compute(std::span<const PredictionInput> windows, std::span<const float> numbers);
  /// Of a window of the last batch, for each of its tokens: −log p of the one behind it, 0 behind a text's last one; no
  /// number where logits are not finite.
  std::span<const double> of_window(std::size_t window, std::int64_t num_tokens) const;

 private:
  double loss_at(const PredictionInput& window, std::size_t place, std::span<const float> logits) const;

  std::size_t length_, num_logits_;
  int num_threads_;
  std::vector<double> losses_;  ///< by window and place
};

}  // namespace trainer
