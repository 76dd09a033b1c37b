#include "datasets/text/utf8_stretch.h"

#include <cstdint>
#include <cstring>

namespace trainer {
namespace {

/// The least and the largest that the second byte may be; RFC 3629, section 4.
struct SecondByte {
  unsigned least = 0x80, most = 0xBF;
};

SecondByte second_byte_after(unsigned first) {
  switch (first) {
    case 0xE0:
      return {.least = 0xA0};
    case 0xED:
      return {.most = 0x9F};
    case 0xF0:
      return {.least = 0x90};
    case 0xF4:
      return {.most = 0x8F};
    default:
      return {};
  }
}

}  // namespace

std::size_t utf8_stretch(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    // Eight at once, as long as all of them are ASCII.
    if (text.size() - at >= 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, text.data() + at, 8);
      if ((word & 0x8080808080808080U) == 0) {
        at += 8;
        continue;
      }
    }
    const auto byte = [&](std::size_t i) { return static_cast<unsigned>(static_cast<unsigned char>(text[at + i])); };
    const unsigned first = byte(0);
    if (first < 0x80U) {
      ++at;
      continue;
    }
    const std::size_t length = first < 0xC2U ? 0 : first < 0xE0U ? 2 : first < 0xF0U ? 3 : first < 0xF5U ? 4 : 0;
    if (length == 0 || text.size() - at < length) return at;
    const SecondByte second = second_byte_after(first);
    if (byte(1) < second.least || byte(1) > second.most) return at;
    for (std::size_t i = 2; i < length; ++i)
      if ((byte(i) & 0xC0U) != 0x80U) return at;
    at += length;
  }
  return at;
}

}  // namespace trainer
