#pragma once

#include <span>
#include <string>
#include <string_view>

namespace trainer {

/// The candidate that `word` most likely was meant to be, or "" where none is near: at most a third of its letters
/// (but at least one) inserted, removed, changed or swapped with their neighbour; case does not count. Ties go to the
/// first.
std::string_view nearest(std::string_view word, std::span<const std::string> candidates);

/// The same, but nothing where only the digits in it are more or fewer: cifar100 is no misspelling of cifar10.
std::string_view nearest_but_in_number(std::string_view word, std::span<const std::string> candidates);

}  // namespace trainer
