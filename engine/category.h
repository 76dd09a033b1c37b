#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace trainer {

/// What a buffer is held for; every buffer has exactly one.
enum class Category : std::uint8_t {
  parameter,        ///< weights, biases, running statistics
  gradient,         ///< gradients of parameters
  optimizer_state,  ///< momentum, moments
  activation,       ///< forward results; a gradient that is written over one stays here
  input,            ///< the batch: images or features, targets
  workspace,        ///< scratch of one op while it runs
  temporary,        ///< gradients of activations, loss statistics, norms
  communication,    ///< buffers of collectives
  frozen,           ///< weights of networks that are not trained: those of losses on features
};
inline constexpr int num_categories = 9;
inline constexpr std::array<std::string_view, num_categories> category_names = {
    "parameter", "gradient",  "optimizer_state", "activation", "input",
    "workspace", "temporary", "communication",   "frozen"};
constexpr std::string_view name_of(Category category) { return category_names[static_cast<int>(category)]; }

/// Which part of a step an instruction belongs to.
enum class Phase : std::uint8_t { load, forward, recompute, backward, update, eval };
inline constexpr std::array<std::string_view, 6> phase_names = {"load",     "forward", "recompute",
                                                                "backward", "update",  "eval"};
constexpr std::string_view name_of(Phase phase) { return phase_names[static_cast<int>(phase)]; }

}  // namespace trainer
