#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace trainer {

/// Number of Unicode code points in UTF-8 text: what an editor counts as columns.
std::size_t num_code_points(std::string_view text);

/// Offset of the first byte that is not well-formed UTF-8 or is a control character other than tab, newline and
/// carriage return; text.size() where there is none.
std::size_t first_bad_byte(std::string_view text);

/// The text with everything that cannot be shown on one line of a terminal replaced by '?'; a tab becomes a space.
std::string printable(std::string_view text);

/// The text with control characters and bytes that are not UTF-8 written out, so that a terminal shows them and does
/// not obey: "\x1b", and "\x9b" of a byte or of U+009B. Newlines stay; a tab becomes a space.
std::string escaped(std::string_view text);

/// What is wrong with a text that people see and YAML and JSON hold: "is not UTF-8", "holds a control character" (a tab
/// is none). Empty: nothing.
std::string_view mistake_in_text(std::string_view text);

/// printable(), cut to `most` code points and an ellipsis.
std::string shortened(std::string_view text, std::size_t most = 60);

}  // namespace trainer
