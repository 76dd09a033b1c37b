#include "engine/config/text/utf8_text.h"

namespace trainer {
namespace {

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

/// Length of the well-formed sequence at `offset`, 0 where there is none. RFC 3629, table of section 4.
std::size_t sequence_length(std::string_view text, std::size_t offset) {
  const auto byte = [&](std::size_t i) {
    return offset + i < text.size() ? static_cast<unsigned char>(text[offset + i]) : 0U;
  };
  const auto tail = [&](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned first = byte(0);
  if (first < 0x80U) return 1;
  if (first >= 0xC2U && first <= 0xDFU) return tail(1) ? 2 : 0;
  if (first >= 0xE0U && first <= 0xEFU) {
    const bool overlong = first == 0xE0U && byte(1) < 0xA0U;
    const bool surrogate = first == 0xEDU && byte(1) > 0x9FU;
    return tail(1) && tail(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (first >= 0xF0U && first <= 0xF4U) {
    const bool overlong = first == 0xF0U && byte(1) < 0x90U;
    const bool beyond = first == 0xF4U && byte(1) > 0x8FU;
    return tail(1) && tail(2) && tail(3) && !overlong && !beyond ? 4 : 0;
  }
  return 0;
}

bool is_control(char byte) {
  const auto code = static_cast<unsigned char>(byte);
  return code < 0x20U || code == 0x7FU;
}

/// U+0080 to U+009F, which terminals obey like the first 32.
bool is_second_control(std::string_view text, std::size_t offset) {
  return text[offset] == '\xC2' && offset + 1 < text.size() && static_cast<unsigned char>(text[offset + 1]) < 0xA0U;
}

/// Length of what may be shown at `offset`; 0 where it may not.
std::size_t shown_length(std::string_view text, std::size_t offset) {
  return is_control(text[offset]) || is_second_control(text, offset) ? 0 : sequence_length(text, offset);
}

}  // namespace

std::size_t num_code_points(std::string_view text) {
  std::size_t count = 0;
  for (const char byte : text) {
    if (!is_continuation(byte)) ++count;
  }
  return count;
}

std::size_t first_bad_byte(std::string_view text) {
  std::size_t offset = 0;
  while (offset < text.size()) {
    const char byte = text[offset];
    const std::size_t length = sequence_length(text, offset);
    if (length == 0) return offset;
    if (is_control(byte) && byte != '\t' && byte != '\n' && byte != '\r') return offset;
    offset += length;
  }
  return text.size();
}

std::string printable(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  std::size_t offset = 0;
  while (offset < text.size()) {
    if (const std::size_t length = shown_length(text, offset); length > 0) {
      result += text.substr(offset, length);
      offset += length;
    } else {
      result += text[offset] == '\t' ? ' ' : '?';
      offset += is_second_control(text, offset) ? 2 : 1;
    }
  }
  return result;
}

std::string escaped(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string result;
  result.reserve(text.size());
  std::size_t offset = 0;
  while (offset < text.size()) {
    const std::size_t length = text[offset] == '\n' ? 1 : shown_length(text, offset);
    if (length > 0) {
      result += text.substr(offset, length);
      offset += length;
      continue;
    }
    if (is_second_control(text, offset)) ++offset;
    const auto code = static_cast<unsigned char>(text[offset++]);
    if (code == '\t') {
      result += ' ';
      continue;
    }
    result += "\\x";
    result += digits[code / 16];
    result += digits[code % 16];
  }
  return result;
}

std::string_view mistake_in_text(std::string_view text) {
  std::size_t length = 0;
  for (std::size_t offset = 0; offset < text.size(); offset += length) {
    length = sequence_length(text, offset);
    if (length == 0) return "is not UTF-8";
    if (text[offset] != '\t' && shown_length(text, offset) == 0) return "holds a control character";
  }
  return "";
}

std::string shortened(std::string_view text, std::size_t most) {
  std::size_t end = 0;
  for (std::size_t count = 0; end < text.size(); ++end) {
    if (!is_continuation(text[end]) && count++ == most) break;
  }
  if (end == text.size()) return printable(text);
  return printable(text.substr(0, end)) + "…";
}

}  // namespace trainer
