#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/train/files/checkpoint.h"

namespace trainer {

inline constexpr const char* config_file = "config.yaml";
inline constexpr const char* events_file = "events.jsonl";
inline constexpr const char* failed_events_file = "events.failed.jsonl";
/// All files that runs write into their folder beside checkpoints/.
inline constexpr const char* out_of_memory_file = "out_of_memory.txt";
/// Its first words, by which it is told from somebody else's file.
inline constexpr const char* out_of_memory_words = "Out of memory";
/// Samples that could not be read and were skipped, a line each, and the words that it begins with.
inline constexpr const char* skipped_samples_file = "skipped_samples.txt";
inline constexpr const char* skipped_samples_words = "Skipped samples";
/// Which run of MLflow's file store it is (logging.mlflow).
inline constexpr const char* mlflow_run_file = "mlflow_run.txt";
inline constexpr std::array own_run_files = {config_file,        events_file,          failed_events_file,
                                             out_of_memory_file, skipped_samples_file, mlflow_run_file};

/// "events.out.tfevents.1760000000.trainer": TensorBoard's files of a process that began in that second
/// (logging.tensorboard), of which a folder has any number. TensorBoard reads them in the order of their names.
std::string tensorboard_file(std::int64_t second);
/// -1: no such file.
std::int64_t second_of_tensorboard_file(const std::string& name);
/// The names of those in a folder, in order.
std::vector<std::string> tensorboard_files_in(const std::string& folder);

/// All names that a run may have in its folder: own_run_files, and its files of TensorBoard.
std::vector<std::string> own_files_in(const std::string& folder);

/// The names in a checkpoints/ that runs made: of checkpoints, and the links.
std::vector<std::string> own_checkpoint_entries(const std::string& checkpoints);

/// Where all ranks but the first have folders of their own.
inline constexpr const char* ranks_folder = "ranks";
/// Where a rank writes its events: the run's folder, and for all but rank 0 one in it.
std::string folder_of_rank(const std::string& run, std::int64_t rank);

/// The folder of a run: config.yaml (resolved) and checkpoints/; see Notes [Checkpoints], [Replacing a run]. Paths are
/// as given.
class RunDirectory {
 public:
  explicit RunDirectory(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string checkpoints_path() const { return path_ + "/checkpoints"; }

  /// Whether a run left something behind: a config.yaml or a checkpoint.
  bool holds_run() const;
  /// Refuses a folder in which a run would take the place of somebody else's file. Throws DataError that names it.
  void check_files() const;
  /// Removes what a killed run was writing, and brings back what it was to replace.
  void prepare() const;
  /// Removes the run: its configuration, events and checkpoints, nothing else.
  void remove_run() const;

  /// Removes what ranks from that one on have told; nothing else of their folders.
  void remove_ranks(std::int64_t first) const;

  /// Steps that have a checkpoint, ascending.
  std::vector<std::int64_t> checkpoint_steps() const;
  std::string checkpoint_path(std::int64_t step) const;
  /// The newest checkpoint that can be read. One that is damaged is an error that tells what there is to do, unless
  /// `accept_previous`: then the next older one is tried. DataError where there is none. `ranks`: read_checkpoint.
  Checkpoint newest(bool accept_previous, Communicator* ranks = nullptr) const;

  /// After saving `step`: points `latest` at it and `best` at `best_step` (-1: none), and removes all checkpoints but
  /// the newest `keep` and the best. Later ones go too: a run that was taken up at an earlier step has left them
  /// behind. A run that was replaced is removed.
  void settle(std::int64_t step, std::int64_t best_step, std::int64_t keep) const;

  void write_config(const std::string& yaml) const;

  std::string out_of_memory_path() const { return path_ + "/" + out_of_memory_file; }
  /// What a run that ended out of memory had to say; `report` begins with out_of_memory_words. Throws DataError.
  void write_out_of_memory(const std::string& report) const;
  /// Removes the report of an earlier run.
  void remove_out_of_memory() const;
  std::string skipped_samples_path() const { return path_ + "/" + skipped_samples_file; }
  /// Why each sample that was skipped could not be read. Throws DataError.
  void write_skipped_samples(const std::vector<std::string>& reasons) const;

 private:
  std::string path_;
};

}  // namespace trainer
