#include "engine/config/fields/field_table.h"

#include <fmt/format.h>

namespace trainer {

std::string join_key(std::string_view section, std::string_view key) {
  return section.empty() ? std::string(key) : fmt::format("{}.{}", section, key);
}

std::string_view section_of(std::string_view key) {
  const std::size_t dot = key.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : key.substr(0, dot);
}

std::string_view last_of(std::string_view key) { return key.substr(key.rfind('.') + 1); }

}  // namespace trainer
