#pragma once

#include <string>

namespace trainer {

// Note [Replacing a run]
// ~~~~~~~~~~~~~~~~~~~~~~
// A run that replaces another takes nothing away before there is something in its place. The files of the one that the
// folder holds move to <output>/.replaced, its checkpoints to <output>/checkpoints/.replaced, since `checkpoints` may
// be a link to another disk. With the first checkpoint of the new run on the disk they are removed. A new run that ends
// before brings them back, one that was killed before is followed by a start that does; what the new run told stays as
// events.failed.jsonl. What is not a run's own stays where it is throughout.
//
// A process may be killed at any moment: while there is `.replaced.tmp`, entries are on their way, each in one of its
// two places, and go back; while there is `.replaced`, all of them are aside.

/// The run that steps aside in an output folder. All of it throws DataError where the disk refuses.
class ReplacedRun {
 public:
  explicit ReplacedRun(std::string output) : output_(std::move(output)) {}

  bool is_aside() const;
  /// Moves the run that the folder holds aside.
  void set_aside() const;
  /// Puts it back in the place of a run without checkpoints.
  void bring_back() const;
  /// Removes it for good.
  void remove() const;
  /// Undoes what a process that was killed began to move.
  void recover() const;

 private:
  std::string checkpoints() const { return output_ + "/checkpoints"; }
  std::string aside() const { return output_ + "/.replaced"; }
  std::string moving() const { return aside() + ".tmp"; }
  std::string checkpoints_aside() const { return checkpoints() + "/.replaced"; }

  std::string output_;
};

}  // namespace trainer
