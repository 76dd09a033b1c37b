#pragma once

#include <string>

namespace trainer {

/// What `act` is refused with as an Error; "it was taken" where it is not.
template <typename Error, typename Function>
std::string refusal_of(Function&& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "it was taken";
}

}  // namespace trainer
