#include "engine/report/logging/mlflow_sink.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>
#include <string_view>

#include "engine/config/load_experiment.h"
#include "engine/config/text/utf8_text.h"
#include "engine/report/logging/mlflow_files.h"
#include "engine/report/logging/run_parameters.h"
#include "engine/train/files/durable_file.h"
#include "engine/train/files/run_directory.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t run_id_digits = 32, longest_parameter = 500;
constexpr std::chrono::seconds longest_unwritten{1};
// RunStatus of mlflow/protos/service.proto.
constexpr int run_goes_on = 1, run_finished = 3, run_failed = 4, run_killed = 5;

std::int64_t milliseconds_since_1970() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string random_run_id() {
  std::random_device random;
  std::string id;
  for (int i = 0; i < 4; ++i) id += fmt::format("{:08x}", random());
  return id;
}

bool is_run_id(const std::string& text) {
  return text.size() == run_id_digits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

int status_number(const std::string& status) {
  if (status == "done") return run_finished;
  return status == "interrupted" ? run_killed : run_failed;
}

std::string absolute_path(const std::string& path) { return fs::absolute(path).lexically_normal().string(); }

std::string last_part(const std::string& path) {
  fs::path folder = fs::absolute(path).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  return folder.filename().string();
}

}  // namespace

MlflowSink::MlflowSink(std::string store, std::string output, std::vector<std::string> overrides,
                       std::function<void(const std::string&)> warn)
    : store_(std::move(store)), output_(std::move(output)), overrides_(std::move(overrides)), warn_(std::move(warn)) {}

void MlflowSink::take(const Event& event) {
  if (const auto* start = std::get_if<StartEvent>(&event)) {
    try {
      return begin(*start);
    } catch (const DataError& error) {
      throw DataError(fmt::format("cannot write MLflow's files: {}", error.what()));
    }
  }
  if (folder_.empty()) return;
  if (const auto* step = std::get_if<StepEvent>(&event)) return note(*step);
  write_waiting();
  if (const auto* eval = std::get_if<EvalEvent>(&event)) add(eval->step, scalars_.of(*eval));
  const auto* end = std::get_if<EndEvent>(&event);
  flush(end != nullptr);
  if (end == nullptr || folder_.empty()) return;
  try {
    write_meta(status_number(end->status), milliseconds_since_1970());
  } catch (const DataError& error) {
    fail(error.what());
  }
}

void MlflowSink::make_durable() {
  if (folder_.empty()) return;
  write_waiting();
  flush(true);
}

void MlflowSink::begin(const StartEvent& event) {
  if (event.leaves_former_run || (event.resumption && !event.resumption->trains) || event.experiment == nullptr) return;
  const std::int64_t now = milliseconds_since_1970();
  make_directories_durably(store_);
  experiment_id_ = find_or_make_experiment(store_, event.experiment->name, now);
  start_time_ = now;
  if (!event.resumption || !find_former_run(experiment_id_, event.resumption->step)) {
    run_id_ = random_run_id();
    folder_ = fmt::format("{}/{}/{}", store_, experiment_id_, run_id_);
  }
  for (const char* part : {"params", "metrics", "tags", "artifacts"}) make_directories_durably(folder_ + "/" + part);
  write_meta(run_goes_on, 0);
  write_parameters(event);
  make_directories_durably(output_);
  write_file_durably(output_ + "/" + mlflow_run_file, fmt::format("{} {}\n", run_id_, start_time_));
}

bool MlflowSink::find_former_run(const std::string& experiment_id, std::int64_t last_step) {
  const std::string path = output_ + "/" + mlflow_run_file;
  std::error_code none;
  if (!fs::exists(path, none)) return false;
  constexpr std::size_t longest_line = 256;
  const std::string line = read_text_file(path, longest_line);
  std::string id = line.substr(0, std::min(line.find(' '), line.size()));
  if (!is_run_id(id)) return false;
  const std::string folder = fmt::format("{}/{}/{}", store_, experiment_id, id);
  if (!fs::exists(folder + "/meta.yaml", none)) return false;
  run_id_ = std::move(id);
  folder_ = folder;
  const std::int64_t began = std::strtoll(line.c_str() + run_id_digits, nullptr, 10);
  if (began > 0 && began < start_time_) start_time_ = began;
  remove_later_metrics(folder_ + "/metrics", last_step);
  return true;
}

void MlflowSink::write_meta(int status, std::int64_t end_time) const {
  const std::string path = folder_ + "/meta.yaml";
  write_file_durably(
      path + ".tmp",
      fmt::format("artifact_uri: {}\nend_time: {}\nentry_point_name: ''\nexperiment_id: '{}'\n"
                  "lifecycle_stage: active\nrun_id: {}\nrun_name: {}\nrun_uuid: {}\nsource_name: ''\n"
                  "source_type: 4\nsource_version: ''\nstart_time: {}\nstatus: {}\ntags: []\n"
                  "user_id: ''\n",
                  yaml_quoted(absolute_path(folder_) + "/artifacts"),
                  end_time == 0 ? "null" : fmt::format("{}", end_time), experiment_id_, yaml_quoted(run_id_),
                  yaml_quoted(last_part(output_)), yaml_quoted(run_id_), start_time_, status));
  std::error_code error;
  fs::rename(path + ".tmp", path, error);
  if (error) throw DataError(fmt::format("cannot write {}: {}", path, error.message()));
}

void MlflowSink::write_parameters(const StartEvent& event) const {
  for (const Hyperparameter& each : run_parameters(resolved_json(*event.experiment), overrides_)) {
    const std::string value = each.kind == Hyperparameter::Kind::number ? fmt::format("{}", each.number)
                              : each.kind == Hyperparameter::Kind::text ? each.text
                              : each.number != 0                        ? "true"
                                                                        : "false";
    write_file_durably(fmt::format("{}/params/{}", folder_, mlflow_key(each.name)),
                       shortened(value, longest_parameter));
  }
  const std::pair<const char*, std::string> tags[] = {{"mlflow.runName", escaped(last_part(output_))},
                                                      {"mlflow.source.name", "trainer"},
                                                      {"mlflow.source.type", "LOCAL"},
                                                      {"trainer.version", event.trainer_version},
                                                      {"trainer.device", escaped(event.device_name)},
                                                      {"trainer.output", escaped(absolute_path(output_))}};
  for (const auto& [tag, value] : tags) write_file_durably(fmt::format("{}/tags/{}", folder_, tag), value);
  write_file_durably(folder_ + "/artifacts/config.yaml", resolved_yaml(*event.experiment));
}

void MlflowSink::note(const StepEvent& event) {
  if (!thinning_.takes(event)) return;
  add(event.step, scalars_.of(event));
  flush(false);
}

void MlflowSink::write_waiting() {
  if (const StepEvent* step = thinning_.take_waiting()) add(step->step, scalars_.of(*step));
}

void MlflowSink::add(std::int64_t step, std::span<const LiveScalar> scalars) {
  const std::int64_t now = milliseconds_since_1970();
  for (const LiveScalar& scalar : scalars) {
    if (scalar.tag.starts_with("class_")) continue;
    auto lines = unwritten_.find(scalar.tag);
    if (lines == unwritten_.end()) lines = unwritten_.emplace(scalar.tag, "").first;
    fmt::format_to(std::back_inserter(lines->second), "{} {} {}\n", now, scalar.value, step);
  }
}

void MlflowSink::flush(bool is_urgent) {
  const Clock::time_point now = Clock::now();
  if (folder_.empty() || (!is_urgent && now - last_write_ < longest_unwritten)) return;
  last_write_ = now;
  write_metrics();
}

void MlflowSink::write_metrics() {
  for (auto& [tag, lines] : unwritten_) {
    if (lines.empty()) continue;
    const std::string path = fmt::format("{}/metrics/{}", folder_, tag);
    std::error_code ignored;
    std::FILE* file = std::fopen(path.c_str(), "abe");
    if (file == nullptr && errno == ENOENT && fs::create_directories(fs::path(path).parent_path(), ignored))
      file = std::fopen(path.c_str(), "abe");
    bool is_written = file != nullptr && std::fwrite(lines.data(), 1, lines.size(), file) == lines.size();
    const int error = errno;
    if (file != nullptr && std::fclose(file) != 0) is_written = false;
    if (!is_written) return fail(fmt::format("{}: {}", path, std::strerror(error == 0 ? errno : error)));
    lines.clear();
  }
}

void MlflowSink::fail(const std::string& problem) {
  folder_.clear();
  warn_(fmt::format("cannot write MLflow's files: {}; nothing more is written there, and training goes on", problem));
}

}  // namespace trainer
