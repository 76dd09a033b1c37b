#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/config/experiment.h"
#include "engine/config/layer_spec.h"
#include "engine/graph/preprocessing.h"
#include "engine/shape.h"

namespace trainer {

enum class PredictedKind : std::uint8_t {
  classes,     ///< probabilities of classes, of which one is true: softmax
  labels,      ///< of each label for itself: sigmoid
  numbers,     ///< in the units of the data
  class_map,   ///< a class for each pixel
  next_token,  ///< of a text: the loss of its tokens, and probabilities of the one behind it
};

// Note [What outputs say]
// ~~~~~~~~~~~~~~~~~~~~~~~
// A model puts out what its loss reads; what that says is told by the loss, as in fastai's get_preds: cross_entropy and
// dice of classes choose one of them by the softmax over the last axis, or, of one logit, by its sigmoid, which is the
// probability of class 1; bce_with_logits and dice of numbers take the sigmoid of each number for a probability; the
// others learn the numbers themselves, which become (x · std + mean) where targets were standardised. Of a loss of
// several terms the first that is not `feature` says it. Of tokens, cross_entropy's softmax over the vocabulary is
// behind each token the probability of the next: what a text tells is the mean of −log p of each of its tokens but the
// first, and those probabilities behind its last one. All of it is done in f64.

/// What the outputs of a model stand for; see Note [What outputs say].
struct PredictionOutputs {
  PredictedKind kind = PredictedKind::classes;
  std::vector<std::string> names;  ///< of the classes, labels, numbers, or tokens; of tokens none where they have none
  std::int64_t num_logits = 0;     ///< of one input, in its last axis: as many as names, or 1 of two classes, or more
                                   ///< than the tokens that have names
  Pair map_size{0, 0};             ///< of class_map: height and width
  std::int64_t window_length = 0;  ///< of next_token: tokens of an input
  std::vector<double> mean, std;   ///< of numbers that training standardised; empty: they are as they are

  /// Numbers that a model puts out for one input.
  std::int64_t numbers_of_input() const {
    switch (kind) {
      case PredictedKind::class_map:
        return map_size[0] * map_size[1] * num_logits;
      case PredictedKind::next_token:
        return window_length * num_logits;
      default:
        return num_logits;
    }
  }
  /// Values of an input that is told: one for each name, or for each token.
  std::int64_t num_values() const {
    return kind == PredictedKind::next_token && names.empty() ? num_logits : static_cast<std::int64_t>(names.size());
  }
};

/// Of a model with the experiment's loss, whose prediction is of type (batch, …). Throws ConfigError where that is
/// nothing that can be told in a row or a mask.
PredictionOutputs describe_outputs(const Experiment& experiment, const Preprocessing& preprocessing,
                                   const TensorType& prediction);

/// A value for each name: probabilities, or numbers. Not for class_map and next_token.
void predicted_values(const PredictionOutputs& outputs, std::span<const float> logits, std::span<double> values);

/// −log p of a token by the logits in front of it: natural.
double token_loss(std::span<const float> logits, std::int32_t token);
/// Probabilities of the first tokens, as many as `values` has, by the logits of all.
void token_probabilities(std::span<const float> logits, std::span<double> values);

/// The likeliest class of each pixel, the first of equal ones. For class_map, of at most 256 classes.
void predicted_mask(const PredictionOutputs& outputs, std::span<const float> logits, std::span<std::uint8_t> mask);

}  // namespace trainer
