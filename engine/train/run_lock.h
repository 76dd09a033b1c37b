#pragma once

#include <string>

namespace trainer {

/// Holds a run's folder for one process: two runs that write one folder would mix their checkpoints. Given up when the
/// process ends, however it ends.
class RunLock {
 public:
  /// Throws DataError where another process holds the folder. Where the file system knows no locks there is none.
  explicit RunLock(const std::string& folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int folder_ = -1;
};

}  // namespace trainer
