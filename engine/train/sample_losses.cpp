#include "engine/train/sample_losses.h"

#include <algorithm>
#include <cmath>

#include "engine/errors.h"

namespace trainer {
namespace {

bool is_of_a_sample(const LossConfig& loss) { return loss.type != LossType::dice && loss.type != LossType::feature; }

double log_of_exp_sum(std::span<const float> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  return largest + std::log(sum);
}

double class_weight(const LossConfig& loss, std::size_t of_class) {
  // As the device has them.
  return loss.class_weights.empty() ? 1.0 : static_cast<double>(static_cast<float>(loss.class_weights[of_class]));
}

double cross_entropy_of(const LossConfig& loss, std::span<const float> logits, std::int32_t target) {
  const double whole = log_of_exp_sum(logits);
  const auto own = static_cast<std::size_t>(target);
  double cost = (1 - loss.label_smoothing) * class_weight(loss, own) * (whole - logits[own]);
  if (loss.label_smoothing > 0) {
    double others = 0;
    for (std::size_t c = 0; c < logits.size(); ++c) others += class_weight(loss, c) * (whole - logits[c]);
    cost += loss.label_smoothing / static_cast<double>(logits.size()) * others;
  }
  return cost;
}

double cost_of_number(const LossConfig& loss, double predicted, double target) {
  const double error = std::abs(predicted - target);
  switch (loss.type) {
    case LossType::mse:
      return error * error;
    case LossType::l1:
      return error;
    case LossType::smooth_l1:
      return error < loss.beta ? error * error / (2 * loss.beta) : error - loss.beta / 2;
    case LossType::bce_with_logits:
      return std::max(predicted, 0.0) - predicted * target + std::log1p(std::exp(-std::abs(predicted)));
    default:
      return 0;
  }
}

}  // namespace

SampleLosses::SampleLosses(const Experiment& experiment, const DataDescription& data, std::int64_t most)
    : experiment_(experiment), data_(data), most_(static_cast<std::size_t>(most)) {
  num_terms_ = static_cast<std::size_t>(std::count_if(experiment.losses.begin(), experiment.losses.end(),
                                                      [](const LossConfig& loss) { return is_of_a_sample(loss); }));
}

SampleLoss SampleLosses::loss_of(std::span<const float> logits, const std::byte* targets) const {
  const auto num_targets = static_cast<std::size_t>(data_.target.num_elements());
  SampleLoss sample;
  if (data_.categorical()) {
    const std::span classes(reinterpret_cast<const std::int32_t*>(targets), num_targets);
    const std::size_t num_classes = logits.size() / num_targets;
    for (const LossConfig& loss : experiment_.losses) {
      if (loss.type != LossType::cross_entropy) continue;
      double sum = 0, count = 0;
      for (std::size_t i = 0; i < num_targets; ++i) {
        if (classes[i] == loss.ignore_index) continue;
        sum += cross_entropy_of(loss, logits.subspan(i * num_classes, num_classes), classes[i]);
        ++count;
      }
      if (count > 0) sample.loss += loss.weight * sum / count;
    }
    if (num_targets == 1) {
      const auto predicted = std::max_element(logits.begin(), logits.end());
      sample.target = classes.front();
      sample.predicted = static_cast<std::int32_t>(predicted - logits.begin());
      sample.probability = std::exp(*predicted - log_of_exp_sum(logits));
    }
    return sample;
  }
  const std::span numbers(reinterpret_cast<const float*>(targets), num_targets);
  for (const LossConfig& loss : experiment_.losses) {
    if (!is_of_a_sample(loss)) continue;
    double sum = 0;
    for (std::size_t i = 0; i < num_targets; ++i) sum += cost_of_number(loss, logits[i], numbers[i]);
    sample.loss += loss.weight * sum / static_cast<double>(num_targets);
  }
  if (num_targets == 1) {
    sample.number = numbers.front();
    sample.predicted_number = logits.front();
    // Of a number that is a probability, its logit is what the model gives.
    if (experiment_.losses.front().type == LossType::bce_with_logits)
      sample.predicted_number = 1 / (1 + std::exp(-static_cast<double>(logits.front())));
  }
  return sample;
}

void SampleLosses::add(std::span<const float> logits, const std::byte* targets, std::int64_t num_samples) {
  require_internal(num_samples > 0 && logits.size() % static_cast<std::size_t>(num_samples) == 0,
                   "each sample has as many logits");
  const std::size_t num_logits = logits.size() / static_cast<std::size_t>(num_samples);
  const std::int64_t target_bytes = data_.target.num_bytes();
  for (std::int64_t i = 0; i < num_samples; ++i) {
    SampleLoss sample =
        loss_of(logits.subspan(static_cast<std::size_t>(i) * num_logits, num_logits), targets + i * target_bytes);
    sample.index = num_samples_++;
    sum_ += sample.loss;
    const auto place = std::upper_bound(highest_.begin(), highest_.end(), sample.loss,
                                        [](double loss, const SampleLoss& other) { return loss > other.loss; });
    if (static_cast<std::size_t>(place - highest_.begin()) >= most_) continue;
    highest_.insert(place, sample);
    if (highest_.size() > most_) highest_.pop_back();
  }
}

}  // namespace trainer
