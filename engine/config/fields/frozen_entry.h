#pragma once

#include <string>

#include "engine/config/yaml/config_node.h"

namespace trainer {

/// What FreezeConfig has an entry of, and where it is written.
struct FrozenEntry {
  std::string text;
  Mark mark;
};

}  // namespace trainer
