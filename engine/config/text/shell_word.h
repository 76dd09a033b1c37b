#pragma once

#include <string>

namespace trainer {

/// The word as one pastes it into a shell: quoted where it would take it apart.
std::string shell_word(const std::string& word);

}  // namespace trainer
