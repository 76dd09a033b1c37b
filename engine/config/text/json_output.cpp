#include "engine/config/text/json_output.h"

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>

namespace trainer {

std::string json_text(const nlohmann::ordered_json& value, int indent) {
  const std::string text =
      value.dump(indent, ' ', /*ensure_ascii=*/false, nlohmann::ordered_json::error_handler_t::replace);
  std::string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    // These stand in strings only, where an escape means the same. U+0080 to U+009F are two bytes, the first 0xC2.
    const bool is_second_control =
        text[i] == '\xC2' && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0U;
    if (is_second_control) ++i;
    if (is_second_control || text[i] == '\x7F') {
      constexpr std::string_view digits = "0123456789abcdef";
      const auto code = static_cast<unsigned char>(text[i]);
      result += "\\u00";
      result += digits[code / 16];
      result += digits[code % 16];
    } else {
      result += text[i];
    }
  }
  return result;
}

}  // namespace trainer
