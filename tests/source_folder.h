#pragma once

#include <cstdlib>
#include <string>

namespace trainer {

/// The folder of the sources, whose files tests read: the one that was built from, or $TRAINER_SOURCE_DIR, for programs
/// that are carried to another machine.
inline std::string source_folder() {
  const char* const carried = std::getenv("TRAINER_SOURCE_DIR");
  return carried != nullptr && *carried != '\0' ? carried : TRAINER_SOURCE_DIR;
}

}  // namespace trainer
