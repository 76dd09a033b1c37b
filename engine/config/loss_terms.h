#pragma once

namespace trainer {

/// Most terms of a loss that is a sum.
inline constexpr int most_loss_terms = 8;

}  // namespace trainer
