#include "engine/report/record/run_record.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>

#include "engine/config/text/json_input.h"
#include "engine/errors.h"
#include "engine/files/file_descriptor.h"
#include "engine/report/text/shell_words.h"
#include "engine/train/files/run_directory.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;
using Input = JsonInput<Json>;

/// More than the configuration of a start event can take.
constexpr std::size_t longest_recorded_line = std::size_t{16} << 20;
constexpr std::int64_t piece_bytes = std::int64_t{1} << 20;

/// Of an `eval` event, as it tells them.
constexpr std::array metric_names = {"accuracy", "top5", "mean_iou",   "dice",
                                     "mae",      "r2",   "perplexity", "bits_per_byte"};

/// A page and JSON's readers in the field keep whole numbers up to here; more is of no run.
constexpr std::int64_t most_recorded = std::int64_t{1} << 53;
constexpr double longest_recorded_seconds = 1e12, highest_recorded_rate = 1e18;
/// Of one run, far above any.
constexpr std::size_t most_recorded_stages = 10'000;

constexpr std::string_view beginning_of_start = R"({"event":"start",)";

constexpr double not_finite = std::numeric_limits<double>::quiet_NaN();

/// `otherwise` where it is missing or null.
double number_or(const Input& map, std::string_view name, double otherwise) {
  const std::optional<Input> value = map.find(name);
  return value && !value->is_null() ? value->number() : otherwise;
}

std::int64_t count_in(const Input& map, std::string_view name) { return map.at(name).integer(0, most_recorded); }

std::int64_t count_or(const Input& map, std::string_view name, std::int64_t otherwise) {
  const std::optional<Input> value = map.find(name);
  return value && !value->is_null() ? value->integer(0, most_recorded) : otherwise;
}

/// From 0 to `most`; 0 where it is missing or null.
double amount_in(const Input& map, std::string_view name, double most) {
  const std::optional<Input> value = map.find(name);
  return value && !value->is_null() ? value->number(0, most) : 0;
}

std::string text_or(const Input& map, std::string_view name, const std::string& otherwise) {
  const std::optional<Input> value = map.find(name);
  return value && !value->is_null() ? value->text() : otherwise;
}

RecordedMemory memory_in(const Input& event) {
  const Input memory = event.at("memory");
  return {.requested = count_in(memory, "requested"),
          .allocated = count_in(memory, "allocated"),
          .reserved = count_in(memory, "reserved"),
          .peak_requested = count_in(memory, "peak_requested"),
          .peak_allocated = count_in(memory, "peak_allocated"),
          .peak_reserved = count_in(memory, "peak_reserved"),
          .device_used = count_in(memory, "device_used"),
          .device_total = count_in(memory, "device_total"),
          .alloc_retries = count_or(memory, "alloc_retries", 0)};
}

/// Of a folder of runs, as a sweep's: one that could be named.
std::string runs_below(const std::string& path) {
  std::error_code ignored;
  std::string first;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, ignored)) {
    const std::string below = entry.path().string();
    if (fs::exists(entry.path() / events_file, ignored) && (first.empty() || below < first)) first = below;
  }
  return first.empty() ? "" : fmt::format("; folders in it hold runs, such as '{}'", first);
}

/// Of a file that somebody damaged.
std::string what_can_be_kept(const std::string& path, std::int64_t num_lines) {
  return fmt::format("\nThe lines before it are good: {} > good.jsonl",
                     shell_words({"head", "-n", std::to_string(num_lines), path}));
}

DataError unreadable(const std::string& path) {
  return DataError(fmt::format("cannot read the events: {}: {}", path, std::strerror(errno)));
}

}  // namespace

std::string RunRecord::status() const {
  if (!end) return "unfinished";
  return text_or(Input(*end), "status", "unfinished");
}

RunReader::RunReader(const std::string& path) {
  record_.path = events_path_of(path);
  record_.folder = fs::path(record_.path).parent_path().string();
}

bool RunReader::read(std::int64_t most_bytes) {
  const FileDescriptor file(::open(record_.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status {};
  if (file.number() < 0 || ::fstat(file.number(), &status) != 0) throw unreadable(record_.path);
  if (S_ISDIR(status.st_mode)) {
    errno = EISDIR;
    throw unreadable(record_.path);
  }
  if (!S_ISREG(status.st_mode)) throw DataError(fmt::format("cannot read the events: {} is no file", record_.path));
  const bool is_another = offset_ > 0 && (status.st_dev != device_ || status.st_ino != node_);
  if (is_another || status.st_size < offset_) begin(status.st_dev, status.st_ino);
  device_ = status.st_dev;
  node_ = status.st_ino;
  size_ = status.st_size;
  bool took_any = false;
  std::string piece;
  while (offset_ < size_ && most_bytes > 0) {
    piece.resize(static_cast<std::size_t>(std::min({piece_bytes, size_ - offset_, most_bytes})));
    const ssize_t count = ::pread(file.number(), piece.data(), piece.size(), offset_);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw unreadable(record_.path);
    if (count == 0) break;  // shorter by now, which the next call sees
    offset_ += count;
    most_bytes -= count;
    std::string_view rest(piece.data(), static_cast<std::size_t>(count));
    for (std::size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
      pending_ += rest.substr(0, end);
      rest.remove_prefix(end + 1);
      ++num_lines_;
      const std::string line = std::exchange(pending_, {});
      if (line.empty()) continue;
      if (took_any && line.starts_with(beginning_of_start)) {
        // What belongs to one start is taken at a time: the next call begins with this line.
        offset_ -= static_cast<std::int64_t>(rest.size() + line.size() + 1);
        --num_lines_;
        return true;
      }
      try {
        take(line);
      } catch (const JsonMistake& mistake) {
        throw DataError(fmt::format("{}: line {}: {}{}", record_.path, num_lines_, mistake.what(),
                                    num_lines_ > 1 ? what_can_be_kept(record_.path, num_lines_ - 1) : ""));
      }
      took_any = true;
    }
    pending_ += rest;
    if (pending_.size() > longest_recorded_line)
      throw DataError(fmt::format("{}: line {} is longer than an event can be", record_.path, num_lines_ + 1));
  }
  return took_any;
}

void RunReader::begin(std::uint64_t device, std::uint64_t node) {
  RunRecord fresh;
  fresh.path = record_.path;
  fresh.folder = record_.folder;
  record_ = std::move(fresh);
  pending_.clear();
  stage_places_.clear();
  device_ = device;
  node_ = node;
  offset_ = num_lines_ = last_step_ = 0;
  ++num_beginnings_;
}

void RunReader::forget() {
  record_.steps.clear();
  record_.evaluations.clear();
  record_.warnings.clear();
  record_.checkpoints.clear();
  record_.stages.clear();
  record_.adaptations.clear();
}

std::int32_t RunReader::stage_of(const std::string& name) {
  std::vector<std::string>& names = record_.stage_names;
  const auto [place, is_new] = stage_places_.try_emplace(name, static_cast<std::int32_t>(names.size()));
  if (is_new && names.size() == most_recorded_stages)
    throw JsonMistake(fmt::format("there are more than {} stages, which no run has", most_recorded_stages));
  if (is_new) names.push_back(name);
  return place->second;
}

void RunReader::take(const std::string& line) {
  std::optional<Json> json = parse_json<Json>(line);
  if (!json || !json->is_object()) throw JsonMistake("this is no event: not a JSON object");
  const Input event(*json);
  const std::string& name = event.at("event").text();
  if (name == "start") {
    if (const std::int64_t schema = event.at("schema").integer(); schema != event_schema_version)
      throw JsonMistake(fmt::format("these events have version {} of their schema, and this trainer reads {}", schema,
                                    event_schema_version));
    const Input device = event.at("device");
    record_.device_kind = device.at("kind").text();
    record_.device_name = device.at("name").text();
    record_.capacity = count_in(device, "capacity");
    record_.trainer_version = text_or(event, "version", "");
    record_.parameters = count_in(event, "parameters");
    record_.total_steps = count_in(event, "total_steps");
    record_.steps_per_epoch = count_in(event, "steps_per_epoch");
    record_.batch_size = count_in(event, "batch_size");
    record_.config = event.at("config").is_null() ? Json::object() : event.at("config").object();
    record_.name = text_or(Input(record_.config), "name", "");
    record_.adaptations.clear();
    record_.end.reset();
    record_.out_of_memory.reset();
    record_.diverged.reset();
    ++record_.num_starts;
    record_.first_steps.push_back(count_or(event, "first_step", 1));
    record_.planned_peak_reserved = count_or(event, "planned_peak_reserved", 0);
    record_.start = *std::move(json);
  } else if (name == "step") {
    RecordedStep step{.step = event.at("step").integer(1, most_recorded),
                      .epoch = count_in(event, "epoch"),
                      .stage = stage_of(event.at("stage").text()),
                      .loss = number_or(event, "loss", not_finite),
                      .learning_rate = event.at("lr").number(),
                      .samples = count_in(event, "samples"),
                      .samples_per_second = amount_in(event, "samples_per_second", highest_recorded_rate),
                      .seconds = event.at("step_seconds").number(0, longest_recorded_seconds),
                      .data_seconds = amount_in(event, "data_seconds", longest_recorded_seconds),
                      .tokens_per_second = amount_in(event, "tokens_per_second", highest_recorded_rate),
                      .mfu = amount_in(event, "mfu", highest_recorded_rate),
                      .loss_scale = amount_in(event, "loss_scale", highest_recorded_rate),
                      .memory = memory_in(event)};
    if (const std::optional<Input> skipped = event.find("skipped")) step.skipped = skipped->boolean();
    if (step.step <= last_step_) throw JsonMistake(fmt::format("step {} stands behind step {}", step.step, last_step_));
    last_step_ = step.step;
    record_.steps.push_back(step);
  } else if (name == "eval") {
    RecordedEvaluation evaluation{.step = count_in(event, "step"),
                                  .epoch = count_in(event, "epoch"),
                                  .stage = stage_of(event.at("stage").text()),
                                  .loss = number_or(event, "loss", not_finite),
                                  .metrics = {},
                                  .samples = count_in(event, "samples"),
                                  .seconds = amount_in(event, "seconds", longest_recorded_seconds),
                                  .memory = memory_in(event)};
    if (const std::optional<Input> best = event.find("best")) evaluation.best = best->boolean();
    for (const char* const metric : metric_names)
      if (const std::optional<Input> value = event.find(metric); value && !value->is_null())
        evaluation.metrics.emplace_back(metric, value->number());
    record_.evaluations.push_back(std::move(evaluation));
  } else if (name == "stage") {
    stage_of(event.at("stage").text());
    record_.stages.push_back(*std::move(json));
  } else if (name == "checkpoint") {
    record_.checkpoints.push_back(count_in(event, "step"));
  } else if (name == "warning") {
    record_.warnings.push_back({count_in(event, "step"), event.at("message").text()});
  } else if (name == "adapt") {
    record_.adaptations.push_back(*std::move(json));
  } else if (name == "oom") {
    record_.out_of_memory = *std::move(json);
  } else if (name == "diverged") {
    record_.diverged = *std::move(json);
  } else if (name == "end") {
    event.at("status").text();
    record_.end = *std::move(json);
  }
}

RunRecord read_run(const std::string& path) {
  RunReader reader(path);
  do {
    reader.read();
  } while (reader.has_more());
  if (reader.record().num_starts == 0)
    throw DataError(fmt::format("no run has begun in {}: it has no 'start' event", reader.record().path));
  return std::move(reader).record();
}

std::string events_path_of(const std::string& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored))
    throw DataError(fmt::format("'{}' is not there: name the folder of a run, or its {}", path, events_file));
  if (!fs::is_directory(path, ignored)) return path;
  std::string events = (fs::path(path) / events_file).string();
  if (!fs::exists(events, ignored))
    throw DataError(fmt::format("'{}' holds no run: there is no {} in it{}", path, events_file, runs_below(path)));
  return events;
}

bool names_run(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored) || path.ends_with(".jsonl");
}

}  // namespace trainer
