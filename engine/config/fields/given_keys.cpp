#include "engine/config/fields/given_keys.h"

#include "engine/config/fields/field_table.h"

namespace trainer {

Mark GivenKeys::mark(std::string_view key) const {
  for (;;) {
    if (const auto found = marks.find(key); found != marks.end()) return found->second;
    if (key.empty()) return root;
    key = section_of(key);
  }
}

}  // namespace trainer
