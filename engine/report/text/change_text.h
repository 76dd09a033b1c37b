#pragma once

#include <string>

#include "engine/plan/search/change.h"

namespace trainer {

/// What a change does, for people: "a smaller batch"; "as it is" where it sets nothing.
std::string change_text(const Change& change);

}  // namespace trainer
