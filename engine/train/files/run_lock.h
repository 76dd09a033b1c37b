#pragma once

#include <cstdint>
#include <optional>
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

/// Which folders are held by a RunLock now, without taking any: even for a moment that would refuse a run its own.
class HeldFolders {
 public:
  /// Reads the system's list of locks; nothing where it has none. `list` is /proc/locks.
  static std::optional<HeldFolders> read(const std::string& list = "/proc/locks");

  /// The process that holds it, as this process would number it; 0 where none does that this process can see, which
  /// one on another machine is not. `writer`: who is told to write there, or 0: some file systems have another number
  /// in the list than they tell, and then who holds a file of the same number is it.
  std::int64_t holder_of(const std::string& folder, std::int64_t writer) const;

 private:
  struct Lock {
    std::int64_t pid = 0;
    std::uint64_t device = 0, node = 0;
  };
  std::vector<Lock> locks_;
};

}  // namespace trainer
