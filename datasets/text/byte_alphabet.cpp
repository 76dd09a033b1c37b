#include "datasets/text/byte_alphabet.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace trainer {
namespace {

constexpr std::uint16_t first_substitute = 0x100;
constexpr std::size_t num_characters = 0x100 + 68;

struct ByteAlphabet {
  std::array<std::uint16_t, 256> character_of{};
  std::array<std::int16_t, num_characters> byte_of{};
};

constexpr ByteAlphabet make_byte_alphabet() {
  ByteAlphabet alphabet;
  for (auto& byte : alphabet.byte_of) byte = -1;
  std::uint16_t next = first_substitute;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const bool stands_for_itself =
        (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
    const std::uint16_t character = stands_for_itself ? static_cast<std::uint16_t>(byte) : next++;
    alphabet.character_of[byte] = character;
    alphabet.byte_of[character] = static_cast<std::int16_t>(byte);
  }
  return alphabet;
}

constexpr ByteAlphabet byte_alphabet = make_byte_alphabet();
static_assert(byte_alphabet.character_of[' '] == 0x120 && byte_alphabet.character_of[0xAD] == 0x143);

}  // namespace

std::string byte_characters(std::string_view bytes) {
  std::string characters;
  characters.reserve(2 * bytes.size());
  for (const char byte : bytes) {
    const unsigned character = byte_alphabet.character_of[static_cast<unsigned char>(byte)];
    if (character < 0x80U) {
      characters.push_back(static_cast<char>(character));
    } else {
      characters.push_back(static_cast<char>(0xC0U | (character >> 6U)));
      characters.push_back(static_cast<char>(0x80U | (character & 0x3FU)));
    }
  }
  return characters;
}

std::optional<std::string> bytes_of_characters(std::string_view characters) {
  std::string bytes;
  bytes.reserve(characters.size());
  for (std::size_t i = 0; i < characters.size(); ++i) {
    unsigned character = static_cast<unsigned char>(characters[i]);
    if (character >= 0x80U) {
      // Every character of the alphabet is one byte or two.
      if (character < 0xC2U || character > 0xDFU || i + 1 == characters.size()) return std::nullopt;
      const unsigned tail = static_cast<unsigned char>(characters[++i]);
      if ((tail & 0xC0U) != 0x80U) return std::nullopt;
      character = (character & 0x1FU) << 6U | (tail & 0x3FU);
    }
    if (character >= num_characters || byte_alphabet.byte_of[character] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(byte_alphabet.byte_of[character]));
  }
  return bytes;
}

std::string bytes_by_character() {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.push_back(static_cast<char>(byte));
  std::sort(bytes.begin(), bytes.end(), [](char a, char b) {
    return byte_alphabet.character_of[static_cast<unsigned char>(a)] <
           byte_alphabet.character_of[static_cast<unsigned char>(b)];
  });
  return bytes;
}

}  // namespace trainer
