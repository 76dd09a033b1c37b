#include "engine/trainer_command.h"

#include <cstdlib>

namespace trainer {
namespace {

constexpr const char* called_as_variable = "TRAINER_CALLED_AS";

}  // namespace

void set_called_as(const std::string& word) { setenv(called_as_variable, word.c_str(), /*overwrite=*/1); }

std::string trainer_command(std::string_view words) {
  const char* const called_as = std::getenv(called_as_variable);
  std::string command = called_as != nullptr ? called_as : "trainer";
  if (!words.empty()) command.append(1, ' ').append(words);
  return command;
}

}  // namespace trainer
