#include "engine/train/run_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "engine/errors.h"

namespace trainer {

RunLock::RunLock(const std::string& folder) : folder_(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (folder_ < 0 || flock(folder_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  close(folder_);
  throw DataError(fmt::format(
      "another trainer is writing to {}; wait for it, or choose another folder with output=FOLDER", folder));
}

RunLock::~RunLock() {
  if (folder_ >= 0) close(folder_);
}

}  // namespace trainer
