#include "engine/train/files/replaced_run.h"

#include <fmt/format.h>

#include <filesystem>
#include <vector>

#include "engine/errors.h"
#include "engine/train/files/durable_file.h"
#include "engine/train/files/run_directory.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

void move_entry(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error && error != std::errc::no_such_file_or_directory)
    throw DataError(fmt::format("cannot move {} to {}: {}", from, to, error.message()));
}

void remove_all_of(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) throw DataError(fmt::format("cannot remove {}: {}", path, error.message()));
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) names.push_back(entry.path().filename().string());
  return names;
}

void move_back(const std::string& from, const std::string& to) {
  for (const std::string& name : names_in(from)) move_entry(from + "/" + name, to + "/" + name);
}

void sync_where_there(const std::string& folder) {
  std::error_code ignored;
  if (fs::is_directory(folder, ignored)) sync_directory(folder);
}

}  // namespace

bool ReplacedRun::is_aside() const {
  std::error_code ignored;
  return fs::exists(aside(), ignored);
}

void ReplacedRun::set_aside() const {
  make_directories_durably(moving());
  const std::vector<std::string> entries = own_checkpoint_entries(checkpoints());
  if (!entries.empty()) make_directories_durably(checkpoints_aside());
  for (const std::string& name : entries) move_entry(checkpoints() + "/" + name, checkpoints_aside() + "/" + name);
  for (const std::string& name : own_files_in(output_)) move_entry(output_ + "/" + name, moving() + "/" + name);
  for (const std::string& folder : {checkpoints_aside(), checkpoints(), moving(), output_}) sync_where_there(folder);
  move_entry(moving(), aside());
  sync_directory(output_);
}

void ReplacedRun::bring_back() const {
  // What is there beside it is the new run's.
  move_entry(output_ + "/" + events_file, output_ + "/" + failed_events_file);
  remove_all_of(output_ + "/" + config_file);
  remove_all_of(output_ + "/" + out_of_memory_file);
  remove_all_of(output_ + "/" + mlflow_run_file);
  for (const std::string& name : tensorboard_files_in(output_)) remove_all_of(output_ + "/" + name);
  for (const std::string& name : own_checkpoint_entries(checkpoints())) remove_all_of(checkpoints() + "/" + name);
  move_entry(aside(), moving());
  sync_directory(output_);
  recover();
}

void ReplacedRun::remove() const {
  // First what says that it is aside: what remains is no run, and the next start removes it.
  remove_all_of(aside());
  remove_all_of(output_ + "/" + failed_events_file);
  remove_all_of(checkpoints_aside());
}

void ReplacedRun::recover() const {
  std::error_code ignored;
  if (fs::exists(moving(), ignored)) {
    move_back(checkpoints_aside(), checkpoints());
    move_back(moving(), output_);
    sync_where_there(checkpoints());
    sync_directory(output_);
    remove_all_of(moving());
  }
  if (!is_aside()) remove_all_of(checkpoints_aside());
}

}  // namespace trainer
