#include "engine/sweep/sweep_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <optional>
#include <utility>

#include "engine/errors.h"
#include "engine/report/sweep/sweep_table.h"
#include "engine/train/files/durable_file.h"
#include "engine/train/files/run_directory.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t largest_sweep_log = std::size_t{1} << 28;

/// What keeps a sweep from going on with a former one; empty: nothing.
std::string sweep_difference(const SweepHeader& former, const SweepHeader& header,
                             const SweepFolder::HeaderAt& header_at) {
  if (former.plan_only != header.plan_only) return former.plan_only ? "its points were planned" : "its points were run";
  if (former.keys != header.keys) return fmt::format("it sweeps {}", fmt::join(former.keys, ", "));
  if (former.version != header.version) return fmt::format("it was made by trainer {}", former.version);
  const auto option = [](const std::string& value) { return value.empty() ? "none" : value; };
  if (former.gpu != header.gpu) return fmt::format("--gpu (was {}, is {})", option(former.gpu), option(header.gpu));
  if (former.capacity != header.capacity)
    return fmt::format("--capacity (was {}, is {})", option(former.capacity), option(header.capacity));
  SweepHeader now;
  try {
    now = header_at(former.values);
  } catch (const ConfigError&) {
    return "the model is another";  // one in which the former keys cannot be set
  }
  std::vector<std::string> differences = find_differences(former.config_json, now.config_json);
  if (differences.empty() && former.device != now.device)
    return fmt::format("device (was {}, is {})", option(former.device), option(now.device));
  if (differences.empty() && former.rates != now.rates)
    return fmt::format("rates (were {}, are {})", option(former.rates), option(now.rates));
  constexpr std::size_t most_shown = 3;
  if (differences.size() > most_shown) {
    const std::size_t num_more = differences.size() - most_shown;
    differences.resize(most_shown);
    differences.push_back(fmt::format("{} more", num_more));
  }
  return fmt::format("{}", fmt::join(differences, ", "));
}

}  // namespace

SweepFolder::SweepFolder(std::string path, const SweepHeader& header, const HeaderAt& header_at, bool overwrite)
    : path_(std::move(path)), keys_(header.keys) {
  make_directories_durably(path_);
  lock_ = std::make_unique<RunLock>(path_);
  std::error_code ignored;
  std::optional<SweepLog> former;
  std::string text;
  if (fs::exists(log_path(), ignored)) {
    text = read_text_file(log_path(), largest_sweep_log);
    try {
      former = read_sweep_log(text, log_path());
    } catch (const DataError&) {
      if (!overwrite) throw;
    }
    if (!former && !overwrite && !text.empty())
      throw DataError(
          fmt::format("{} is not what a sweep writes; choose another folder with output=FOLDER, or replace it with "
                      "--overwrite",
                      log_path()));
  }
  if (!former && RunDirectory(path_).holds_run())
    throw DataError(fmt::format("{} holds a run; choose another folder for the sweep with output=FOLDER", path_));
  if (!former || overwrite) {
    if (former) remove_sweep(*former);
    start(header);
    return;
  }
  if (const std::string different = sweep_difference(former->header, header, header_at); !different.empty())
    throw DataError(
        fmt::format("{} holds another sweep: {}\n--overwrite starts anew, output=FOLDER keeps both", path_, different));
  // A line that a killed sweep left unfinished.
  if (!text.ends_with('\n')) fs::resize_file(log_path(), text.rfind('\n') + 1);
  begun_ = std::move(former->begun);
  rows_ = std::move(former->rows);
  for (std::size_t i = 0; i < rows_.size(); ++i) places_[rows_[i].point] = i;
}

const SweepRow* SweepFolder::result_of(const std::string& point) const {
  const auto place = places_.find(point);
  if (place == places_.end() || !has_result(rows_[place->second].status)) return nullptr;
  return &rows_[place->second];
}

std::vector<SweepRow> SweepFolder::rows() const { return sorted_rows(rows_); }

void SweepFolder::check_is_free(const std::string& point) const {
  if (begun_.contains(point) || !RunDirectory(point_path(point)).holds_run()) return;
  throw DataError(
      fmt::format("{} holds a run that this sweep did not begin; move it away, or choose another folder for the sweep "
                  "with output=FOLDER",
                  point_path(point)));
}

bool SweepFolder::begin(const std::string& point) {
  if (begun_.contains(point)) return true;
  check_is_free(point);
  append_durably(log_path(), sweep_begun_json(point) + '\n');
  begun_.insert(point);
  return false;
}

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

void SweepFolder::remove_sweep(const SweepLog& former) const {
  std::error_code ignored;
  for (const std::string& point : former.begun) {
    // A name read from a file is not trusted to lie in the folder.
    const bool is_elsewhere = point.empty() || point == "." || point == ".." || point.find('/') != std::string::npos;
    if (is_elsewhere || !fs::is_directory(point_path(point), ignored)) continue;
    RunDirectory(point_path(point)).remove_run();
    fs::remove(point_path(point), ignored);  // where nothing else is in it
  }
  for (const char* name : {"sweep.csv", "sweep.svg"}) fs::remove(path_ + "/" + name, ignored);
}

}  // namespace trainer
