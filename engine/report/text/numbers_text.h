#pragma once

#include <string_view>

#include "engine/plan/search/change.h"

namespace trainer {

/// What becomes of the numbers of a run, for people: "same result", "same but for rounding", "another result".
constexpr std::string_view numbers_text(NumbersEffect numbers) {
  switch (numbers) {
    case NumbersEffect::same_bits:
      return "same result";
    case NumbersEffect::same_rounding:
      return "same result but for rounding";
    case NumbersEffect::other:
      return "changes the result";
  }
  return "";
}

/// As events name it.
constexpr std::string_view numbers_name(NumbersEffect numbers) {
  switch (numbers) {
    case NumbersEffect::same_bits:
      return "same_bits";
    case NumbersEffect::same_rounding:
      return "same_rounding";
    case NumbersEffect::other:
      return "other";
  }
  return "";
}

}  // namespace trainer
