#pragma once

#include <string>
#include <vector>

namespace trainer {

/// Holds a run's folder for one process: two runs that write one folder would mix their checkpoints. Given up when the
/// process ends, however it ends. What is found in the folder holds from here on, until then.
class RunLock {
 public:
  /// Makes the folder, and those above it, where they are missing. Throws DataError where they cannot be made, and
  /// where another process holds the folder. Where the file system knows no locks there is none.
  explicit RunLock(const std::string& folder);
  /// The folders that it made go again where nothing was written into them.
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  /// False where the folder was removed meanwhile, by one that held it before.
  bool hold(const std::string& folder);

  std::vector<std::string> made_;  ///< the innermost first
  int folder_ = -1;
};

}  // namespace trainer
