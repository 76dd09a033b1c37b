#include "engine/train/token_choice.h"

#include <algorithm>
#include <cmath>

#include "engine/errors.h"

namespace trainer {

TokenId TokenChooser::choose(std::span<const float> logits, double uniform) {
  const bool has_nan = std::any_of(logits.begin(), logits.end(), [](float logit) { return std::isnan(logit); });
  const auto highest = std::max_element(logits.begin(), logits.end());
  if (has_nan || highest == logits.end() || !std::isfinite(*highest))
    throw DataError("the model's logits are not finite: its weights do not go with this model, or training diverged");
  if (choice_.temperature == 0) return static_cast<TokenId>(highest - logits.begin());

  candidates_.clear();
  for (std::size_t i = 0; i < logits.size(); ++i) candidates_.emplace_back(logits[i], static_cast<TokenId>(i));
  const auto is_likelier = [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  };
  if (const auto k = static_cast<std::size_t>(choice_.top_k); k > 0 && k < candidates_.size()) {
    std::nth_element(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(k) - 1, candidates_.end(),
                     is_likelier);
    const float least = candidates_[k - 1].first;
    std::erase_if(candidates_, [&](const auto& candidate) { return candidate.first < least; });
  }
  std::sort(candidates_.begin(), candidates_.end(), is_likelier);

  weights_.clear();
  double total = 0;
  for (const auto& [logit, token] : candidates_) {
    const double difference = static_cast<double>(logit) - static_cast<double>(*highest);
    weights_.push_back(std::exp(difference / choice_.temperature));
    total += weights_.back();
  }
  if (choice_.top_p < 1) {
    const double wanted = choice_.top_p * total;
    double reached = 0;
    std::size_t count = 0;
    while (count < weights_.size() && (count == 0 || reached < wanted)) reached += weights_[count++];
    weights_.resize(count);
    total = reached;
  }
  double left = uniform * total;
  for (std::size_t i = 0; i + 1 < weights_.size(); ++i) {
    if (left < weights_[i]) return candidates_[i].second;
    left -= weights_[i];
  }
  return candidates_[weights_.size() - 1].second;
}

}  // namespace trainer
