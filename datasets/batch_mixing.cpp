#include "datasets/batch_mixing.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <variant>

#include "datasets/transforms/drawn_numbers.h"
#include "engine/errors.h"

namespace trainer {
namespace {

/// In (0, 1].
double positive_unit(DrawnNumbers& numbers) { return 1 - numbers.unit(); }

double standard_normal(DrawnNumbers& numbers) {
  const double radius = std::sqrt(-2 * std::log(positive_unit(numbers)));
  return radius * std::cos(2 * std::numbers::pi * numbers.unit());
}

/// The logarithm of a number of Gamma(shape, 1): the number itself may be less than any double.
double log_gamma_number(double shape, DrawnNumbers& numbers) {
  // Gamma(a) is Gamma(a + 1) · u^(1/a).
  const double of_unit = shape < 1 ? std::log(positive_unit(numbers)) / shape : 0;
  const double d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = standard_normal(numbers), root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    if (std::log(positive_unit(numbers)) < x * x / 2 + d * (1 - v + std::log(v))) return std::log(d * v) + of_unit;
  }
}

/// Of Beta(alpha, alpha).
double beta_number(double alpha, DrawnNumbers& numbers) {
  const double first = log_gamma_number(alpha, numbers), second = log_gamma_number(alpha, numbers);
  return 1 / (1 + std::exp(second - first));
}

}  // namespace

BatchMixing::BatchMixing(std::span<const TransformSpec> transforms, Pair size, std::uint64_t seed)
    : size_(size), seed_(seed) {
  for (const TransformSpec& transform : transforms) {
    if (const auto* const mixup = std::get_if<MixUpSpec>(&transform.spec)) mixup_ = *mixup;
    if (const auto* const cutmix = std::get_if<CutMixSpec>(&transform.spec)) cutmix_ = *cutmix;
  }
  require_internal(mixup_ || cutmix_, "a batch is mixed by mixup or cutmix");
}

MixedSample BatchMixing::draw(std::int64_t epoch, std::int64_t batch) const {
  DrawnNumbers numbers({seed_, mixing_stream, static_cast<std::uint32_t>(epoch)}, batch);
  const bool is_cutmix = numbers.chance(0.5) ? cutmix_.has_value() : !mixup_.has_value();
  MixedSample drawn;
  if (!numbers.chance(is_cutmix ? cutmix_->p : mixup_->p)) return drawn;
  const double share = beta_number(is_cutmix ? cutmix_->alpha : mixup_->alpha, numbers);
  if (!is_cutmix) {
    drawn.share = drawn.blend = static_cast<float>(share);
    return drawn;
  }
  const auto [height, width] = size_;
  const std::int64_t x = numbers.below(width), y = numbers.below(height);
  const double side = 0.5 * std::sqrt(1 - share);
  const auto half_width = static_cast<std::int64_t>(side * static_cast<double>(width));
  const auto half_height = static_cast<std::int64_t>(side * static_cast<double>(height));
  drawn.left = static_cast<std::int32_t>(std::max<std::int64_t>(0, x - half_width));
  drawn.top = static_cast<std::int32_t>(std::max<std::int64_t>(0, y - half_height));
  drawn.right = static_cast<std::int32_t>(std::min(width, x + half_width));
  drawn.bottom = static_cast<std::int32_t>(std::min(height, y + half_height));
  const double box = static_cast<double>(drawn.right - drawn.left) * static_cast<double>(drawn.bottom - drawn.top);
  drawn.share = static_cast<float>(1 - box / (static_cast<double>(width) * static_cast<double>(height)));
  return drawn;
}

void BatchMixing::pair(const MixedSample& drawn, std::span<const std::int32_t> classes,
                       std::span<MixedSample> samples) {
  const auto num_samples = static_cast<std::int64_t>(samples.size());
  for (std::int64_t i = 0; i < num_samples; ++i) {
    MixedSample& sample = samples[static_cast<std::size_t>(i)];
    sample = drawn;
    sample.partner = static_cast<std::int32_t>(partner_of(i, num_samples));
    if (!classes.empty()) sample.partner_class = classes[static_cast<std::size_t>(sample.partner)];
  }
}

void BatchMixing::mix(float share, std::int64_t numbers_of_target, std::span<float> targets) {
  if (share == 1 || targets.empty()) return;
  const auto width = static_cast<std::size_t>(numbers_of_target);
  const float other_share = 1 - share;
  for (std::size_t i = 0; i < width; ++i) {
    const float last = targets[targets.size() - width + i];
    for (std::size_t at = targets.size() - width + i; at >= width; at -= width)
      targets[at] = share * targets[at] + other_share * targets[at - width];
    targets[i] = share * targets[i] + other_share * last;
  }
}

}  // namespace trainer
