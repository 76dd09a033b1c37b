#include "engine/plan/search/change.h"

#include <cmath>
#include <tuple>

namespace trainer {
namespace {

/// Equal for times that are about equal, so that it orders.
int speed_class(const Change& change) {
  if (!(change.relative_step_time > 0)) return 0;
  return static_cast<int>(std::lround(std::log(change.relative_step_time) / std::log(same_speed)));
}

/// How much is given up: the model, the optimizer's moments, or neither.
int loss_of(const Change& change) {
  int loss = 0;
  for (const ChangePart& part : change.parts) {
    const Effect* const effect = std::get_if<Effect>(&part);
    const bool is_of_model =
        effect == nullptr
            ? std::holds_alternative<NarrowerLayers>(part)
            : *effect == Effect::narrower_layer || *effect == Effect::fewer_repeats || *effect == Effect::smaller_model;
    if (is_of_model) return 2;
    if (effect != nullptr && (*effect == Effect::no_moments || *effect == Effect::no_momentum)) loss = 1;
  }
  return loss;
}

}  // namespace

bool is_advised_before(const Change& a, const Change& b) {
  const auto rank = [](const Change& change) {
    return std::make_tuple(change.raises_limit(), change.numbers, loss_of(change), speed_class(change),
                           change.set.size());
  };
  return rank(a) < rank(b);
}

}  // namespace trainer
