#include "engine/train/prediction_outputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "datasets/dataset_description.h"
#include "engine/config/fields/enum_choices.h"
#include "engine/errors.h"

namespace trainer {
namespace {

/// The term that says what outputs are.
LossType telling_loss(const Experiment& experiment) {
  for (const LossConfig& loss : experiment.losses)
    if (loss.type != LossType::feature) return loss.type;
  return LossType::l1;  // features of images are compared, which are numbers
}

PredictedKind kind_of(LossType loss, bool has_classes) {
  switch (loss) {
    case LossType::cross_entropy:
      return PredictedKind::classes;
    case LossType::dice:
      return has_classes ? PredictedKind::classes : PredictedKind::labels;
    case LossType::bce_with_logits:
      return PredictedKind::labels;
    case LossType::mse:
    case LossType::l1:
    case LossType::smooth_l1:
    case LossType::feature:
      break;
  }
  return PredictedKind::numbers;
}

std::vector<std::string> numbered(std::string_view word, std::int64_t count) {
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < count; ++i) names.push_back(fmt::format("{}{}", word, i));
  return names;
}

/// Those that were kept with the model, where they are as many.
std::vector<std::string> names_of(PredictedKind kind, const Preprocessing& preprocessing, std::int64_t count) {
  const auto size = static_cast<std::size_t>(count);
  if (kind != PredictedKind::numbers && preprocessing.classes.size() == size) return preprocessing.classes;
  if (kind != PredictedKind::classes && preprocessing.targets.size() == size) return preprocessing.targets;
  if (kind == PredictedKind::classes) return numbered("", count);
  const std::string_view word = kind == PredictedKind::labels ? "label" : "prediction";
  return count == 1 ? std::vector<std::string>{std::string(word)} : numbered(std::string(word) + "_", count);
}

double sigmoid(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }

/// Of all logits, for the first of them.
void softmax(std::span<const float> logits, std::span<double> values) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double value = std::exp(static_cast<double>(logits[i]) - largest);
    if (i < values.size()) values[i] = value;
    sum += value;
  }
  for (double& value : values) value /= sum;
}

}  // namespace

PredictionOutputs describe_outputs(const Experiment& experiment, const Preprocessing& preprocessing,
                                   const TensorType& prediction) {
  const LossType loss = telling_loss(experiment);
  PredictionOutputs outputs;
  outputs.kind = kind_of(loss, experiment.data.target_type == TaskTarget::categorical);
  const Shape& shape = prediction.shape;
  const std::string of_loss = loss_choices().name_of(loss);
  const auto refusal = [&](std::string_view what) {
    return ConfigError(fmt::format("the model puts out {} for {}, {}", shape.to_string(), of_loss, what));
  };
  outputs.num_logits = shape.rank() == 1 ? 1 : shape[-1];
  if (shape.rank() == 4) {
    const bool may_choose = outputs.kind == PredictedKind::classes || outputs.num_logits == 1;
    if (outputs.kind == PredictedKind::numbers || !may_choose)
      throw refusal("images of numbers; what is told is classes, labels, numbers, or a class for each pixel");
    outputs.kind = PredictedKind::class_map;
    outputs.map_size = {shape[1], shape[2]};
  } else if (shape.rank() == 3 && loss == LossType::cross_entropy && holds_tokens(experiment.data)) {
    outputs.kind = PredictedKind::next_token;
    outputs.window_length = shape[1];
    return outputs;
  } else if (shape.rank() > 2) {
    throw refusal("one for each of several places of an input; what is told is one of an input, or of a pixel");
  }
  const bool chooses = outputs.kind == PredictedKind::classes || outputs.kind == PredictedKind::class_map;
  const std::int64_t num_names = chooses && outputs.num_logits == 1 ? 2 : outputs.num_logits;
  constexpr std::int64_t most_mask_classes = 256;
  if (outputs.kind == PredictedKind::class_map && num_names > most_mask_classes)
    throw refusal(fmt::format("more classes than the {} that a mask of bytes holds", most_mask_classes));
  outputs.names = names_of(chooses ? PredictedKind::classes : outputs.kind, preprocessing, num_names);
  if (outputs.kind != PredictedKind::numbers || preprocessing.target_mean.empty()) return outputs;
  if (preprocessing.target_mean.size() != outputs.names.size() ||
      preprocessing.target_std.size() != outputs.names.size())
    throw DataError(fmt::format("{} targets were standardised, and the model puts out {} numbers",
                                preprocessing.target_mean.size(), outputs.names.size()));
  outputs.mean = preprocessing.target_mean;
  outputs.std = preprocessing.target_std;
  return outputs;
}

void predicted_values(const PredictionOutputs& outputs, std::span<const float> logits, std::span<double> values) {
  require_internal(outputs.kind != PredictedKind::class_map && outputs.kind != PredictedKind::next_token &&
                       values.size() == outputs.names.size() &&
                       logits.size() == static_cast<std::size_t>(outputs.num_logits),
                   "there is a value for each name");
  if (outputs.kind == PredictedKind::classes && logits.size() > 1) {
    softmax(logits, values);
  } else if (outputs.kind == PredictedKind::classes) {
    values[1] = sigmoid(logits[0]);
    values[0] = sigmoid(-static_cast<double>(logits[0]));
  } else if (outputs.kind == PredictedKind::labels) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = sigmoid(logits[i]);
  } else {
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = logits[i];
      if (!outputs.std.empty()) values[i] = values[i] * outputs.std[i] + outputs.mean[i];
    }
  }
}

double token_loss(std::span<const float> logits, std::int32_t token) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return std::log(sum) + largest - static_cast<double>(logits[static_cast<std::size_t>(token)]);
}

void token_probabilities(std::span<const float> logits, std::span<double> values) {
  require_internal(values.size() <= logits.size(), "a token has a logit");
  softmax(logits, values);
}

void predicted_mask(const PredictionOutputs& outputs, std::span<const float> logits, std::span<std::uint8_t> mask) {
  const auto num_logits = static_cast<std::size_t>(outputs.num_logits);
  require_internal(outputs.kind == PredictedKind::class_map && logits.size() == mask.size() * num_logits,
                   "there is a class for each pixel");
  for (std::size_t i = 0; i < mask.size(); ++i) {
    const std::span<const float> pixel = logits.subspan(i * num_logits, num_logits);
    mask[i] = num_logits == 1 ? static_cast<std::uint8_t>(pixel[0] > 0 ? 1 : 0)
                              : static_cast<std::uint8_t>(std::max_element(pixel.begin(), pixel.end()) - pixel.begin());
  }
}

}  // namespace trainer
