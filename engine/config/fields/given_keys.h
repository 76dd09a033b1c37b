#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "engine/config/yaml/config_node.h"

namespace trainer {

/// Which keys a file gave, and which of them could not be read.
struct GivenKeys {
  Mark root;
  std::map<std::string, Mark, std::less<>> marks;  ///< dotted keys and sections: where the key stands
  std::set<std::string, std::less<>> broken;

  bool has(std::string_view key) const { return marks.contains(key); }
  /// Where the key stands; where it was not given, its section, and else the whole.
  Mark mark(std::string_view key) const;
};

}  // namespace trainer
