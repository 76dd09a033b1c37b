#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace trainer {

// Note [Bytes as characters]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~
// Files of byte-level tokenizers write each byte as one printable character, as GPT-2's encoder.py does: the 188 bytes
// that are printable in Latin-1 and no blank stand for themselves, and the other 68, in their order, are U+0100,
// U+0101, … (a space is U+0120, 'Ġ'). In memory tokens are the bytes themselves.

/// The bytes as those characters, in UTF-8.
std::string byte_characters(std::string_view bytes);

/// The bytes that such characters stand for; nothing where one of them is none of the 256, or the text is not UTF-8.
std::optional<std::string> bytes_of_characters(std::string_view characters);

/// All 256 bytes in the order of the characters that stand for them: their ids in a vocabulary that is trained.
std::string bytes_by_character();

}  // namespace trainer
