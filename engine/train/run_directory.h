#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/train/checkpoint.h"

namespace trainer {

/// The folder of a run: config.yaml (resolved) and checkpoints/; see Note [Checkpoints]. Paths are as given.
class RunDirectory {
 public:
  explicit RunDirectory(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string checkpoints_path() const { return path_ + "/checkpoints"; }

  /// Whether a run left something behind: a config.yaml or a checkpoint.
  bool holds_run() const;
  void make() const;
  /// Removes what a killed run was writing.
  void prepare() const;
  /// Removes the run: its configuration, events and checkpoints, nothing else.
  void remove_run() const;

  /// Steps that have a checkpoint, ascending.
  std::vector<std::int64_t> checkpoint_steps() const;
  std::string checkpoint_path(std::int64_t step) const;
  /// The newest checkpoint that can be read. One that is damaged is an error that tells what there is to do, unless
  /// `accept_previous`: then the next older one is tried. DataError where there is none.
  Checkpoint newest(bool accept_previous) const;

  /// After saving `step`: points `latest` at it and `best` at `best_step` (-1: none), and removes all checkpoints but
  /// the newest `keep` and the best. Later ones go too: a run that was taken up at an earlier step has left them
  /// behind.
  void settle(std::int64_t step, std::int64_t best_step, std::int64_t keep) const;

  void write_config(const std::string& yaml) const;

 private:
  std::string path_;
};

}  // namespace trainer
