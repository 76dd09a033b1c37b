#pragma once

#include <string>
#include <string_view>

namespace trainer {

// Note [How trainer was called]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// What is printed as a command is there to be pasted, so its first word is the one that called this process:
// scripts/trainer, build/release/trainer, or trainer where the PATH has it. main() says it once. It is kept in the
// environment, since the CUDA module has globals of its own.

/// `word` as a shell takes it; called by main() alone, before any thread starts.
void set_called_as(const std::string& word);

/// The command with those words behind it, which are pasted as they are: "scripts/trainer doctor". Outside of the
/// program, as in tests, it is called "trainer".
std::string trainer_command(std::string_view words = "");

}  // namespace trainer
