#pragma once

#include <string_view>

#include "engine/plan/search/change.h"

namespace trainer {

/// What becomes of the numbers of a run, for people: "same result", "same but for rounding", "another result".
constexpr std::string_view numbers_text(Numbers numbers) {
  switch (numbers) {
    case Numbers::same_bits:
      return "same result";
    case Numbers::same_rounding:
      return "same result but for rounding";
    case Numbers::other:
      return "changes the result";
  }
  return "";
}

/// As events name it.
constexpr std::string_view numbers_name(Numbers numbers) {
  switch (numbers) {
    case Numbers::same_bits:
      return "same_bits";
    case Numbers::same_rounding:
      return "same_rounding";
    case Numbers::other:
      return "other";
  }
  return "";
}

}  // namespace trainer
