#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "engine/report/text/style.h"

namespace trainer {

/// The words as one pastes them into a shell: quoted where it would take them apart.
std::string shell_words(const std::vector<std::string>& words);

/// The same over several lines where one of `width` columns is too narrow, continued as a shell wants it; lines after
/// the first start with `indent`, which `width` does not count.
std::string folded_shell_words(const std::vector<std::string>& words, std::size_t width, std::string_view indent);

/// A command of trainer on lines of its own, to paste as it is, called as this process was (Note [How trainer was
/// called] in engine/trainer_command.h); every line starts with `indent` and ends with a newline.
std::string pasted_command(const std::vector<std::string>& words, const Style& style, std::string_view indent = "  ");

/// Overrides with further ones applied: what they replace (the same key, or one inside it) is dropped.
std::vector<std::string> merged_overrides(const std::vector<std::string>& overrides,
                                          const std::vector<std::string>& further);

}  // namespace trainer
