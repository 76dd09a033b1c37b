#include "cli/sweep_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <optional>
#include <utility>

#include "engine/errors.h"
#include "engine/report/sweep_table.h"
#include "engine/train/durable_file.h"
#include "engine/train/run_directory.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t largest_sweep_log = std::size_t{1} << 28;

/// What keeps a sweep from going on with a former one; empty: nothing.
std::string sweep_difference(const SweepHeader& former, const SweepHeader& header,
                             const SweepFolder::ConfigAt& config_at) {
  if (former.plan_only != header.plan_only) return former.plan_only ? "its points were planned" : "its points were run";
  if (former.keys != header.keys) return fmt::format("it sweeps {}", fmt::join(former.keys, ", "));
  if (former.version != header.version) return fmt::format("it was made by trainer {}", former.version);
  const auto option = [](const std::string& value) { return value.empty() ? "none" : value; };
  if (former.gpu != header.gpu) return fmt::format("--gpu (was {}, is {})", option(former.gpu), option(header.gpu));
  if (former.capacity != header.capacity)
    return fmt::format("--capacity (was {}, is {})", option(former.capacity), option(header.capacity));
  std::string config_json;
  try {
    config_json = config_at(former.values);
  } catch (const ConfigError&) {
    return "the model is another";  // one in which the former keys cannot be set
  }
  std::vector<std::string> differences = find_differences(former.config_json, config_json);
  constexpr std::size_t most_shown = 3;
  if (differences.size() > most_shown) {
    const std::size_t num_more = differences.size() - most_shown;
    differences.resize(most_shown);
    differences.push_back(fmt::format("{} more", num_more));
  }
  return fmt::format("{}", fmt::join(differences, ", "));
}

}  // namespace

SweepFolder::SweepFolder(std::string path, const SweepHeader& header, const ConfigAt& config_at, bool overwrite)
    : path_(std::move(path)), keys_(header.keys) {
  make_directories_durably(path_);
  lock_ = std::make_unique<RunLock>(path_);
  std::error_code ignored;
  std::optional<SweepLog> former;
  if (fs::exists(log_path(), ignored)) {
    const std::string text = read_text_file(log_path(), largest_sweep_log);
    try {
      former = read_sweep_log(text, log_path());
    } catch (const DataError&) {
      if (!overwrite) throw;
    }
    // A line that a killed sweep left unfinished.
    fs::resize_file(log_path(), text.rfind('\n') + 1);
  } else if (RunDirectory(path_).holds_run()) {
    throw DataError(fmt::format("{} holds a run; choose another folder for the sweep with output=FOLDER", path_));
  }
  if (!former || overwrite) {
    if (former) remove_sweep(former->rows);
    start(header);
    return;
  }
  if (const std::string different = sweep_difference(former->header, header, config_at); !different.empty())
    throw DataError(
        fmt::format("{} holds another sweep: {}\n--overwrite starts anew, output=FOLDER keeps both", path_, different));
  rows_ = std::move(former->rows);
  for (std::size_t i = 0; i < rows_.size(); ++i) places_[rows_[i].point] = i;
}

const SweepRow* SweepFolder::result_of(const std::string& point) const {
  const auto place = places_.find(point);
  if (place == places_.end() || !has_result(rows_[place->second].status)) return nullptr;
  return &rows_[place->second];
}

std::vector<SweepRow> SweepFolder::rows() const { return sorted_rows(rows_); }

void SweepFolder::add(const SweepRow& row) {
  append_durably(log_path(), sweep_row_json(keys_, row) + '\n');
  const auto [place, is_new] = places_.emplace(row.point, rows_.size());
  if (is_new)
    rows_.push_back(row);
  else
    rows_[place->second] = row;
}

void SweepFolder::write(const std::string& name, const std::string& text) const {
  const std::string target = path_ + "/" + name;
  write_file_durably(target + ".tmp", text);
  replace_durably(target + ".tmp", target);
}

void SweepFolder::start(const SweepHeader& header) const { write("sweep.jsonl", sweep_header_json(header) + '\n'); }

void SweepFolder::remove_sweep(const std::vector<SweepRow>& rows) const {
  std::error_code ignored;
  for (const SweepRow& row : rows) {
    // A name read from a file is not trusted to lie in the folder.
    if (row.point.find('/') != std::string::npos || !fs::is_directory(point_path(row.point), ignored)) continue;
    RunDirectory(point_path(row.point)).remove_run();
    fs::remove(point_path(row.point), ignored);  // where nothing else is in it
  }
  for (const char* name : {"sweep.csv", "sweep.svg"}) fs::remove(path_ + "/" + name, ignored);
}

}  // namespace trainer
