#include "engine/train/measure/data_timing_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "engine/config/load_experiment.h"
#include "engine/config/text/json_input.h"
#include "engine/config/text/json_output.h"
#include "engine/device/processor.h"
#include "engine/errors.h"
#include "engine/train/files/durable_file.h"
#include "engine/train/measure/kept_file.h"
#include "engine/trainer_command.h"

namespace trainer {
namespace {

using TimingJson = nlohmann::ordered_json;

constexpr int timing_format_version = 1;

/// FNV-1a, of 64 bits.
std::uint64_t subject_hash(std::string_view text) {
  std::uint64_t hash = 14695981039346656037U;
  for (const char letter : text) hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211U;
  return hash;
}

TimingJson rate_json(const ReadingRate& rate) {
  return {{"threads", rate.num_threads}, {"samples", rate.num_samples}, {"seconds", rate.seconds}};
}

constexpr double most_seconds_timed = 1e6;
constexpr std::int64_t most_samples_timed = std::int64_t{1} << 50;

ReadingRate rate_of(const JsonInput<TimingJson>& rate) {
  constexpr std::int64_t most_threads = 1 << 16;
  constexpr double least_seconds = 1e-9, most_per_second = 1e12;
  const ReadingRate result{.num_threads = static_cast<int>(rate.at("threads").integer(1, most_threads)),
                           .num_samples = rate.at("samples").integer(1, most_samples_timed),
                           .seconds = rate.at("seconds").number(least_seconds, most_seconds_timed)};
  if (result.samples_per_second() > most_per_second) throw DataError("no machine reads so many samples a second");
  return result;
}

}  // namespace

std::string timing_subject(const Experiment& experiment, const DataDescription& data, int usable_threads) {
  const TimingJson config = TimingJson::parse(resolved_json(experiment));
  TimingJson section = config.at("data");
  section.erase("workers");  // the threads are told
  const std::filesystem::path root = experiment.data.root.empty() ? "." : experiment.data.root;
  std::error_code ignored;
  return json_text(TimingJson{{"data", std::move(section)},
                              {"folder", std::filesystem::absolute(root, ignored).lexically_normal().string()},
                              {"samples", data.num_train},
                              {"sample", data.inputs.front().type.to_string()},
                              {"processor", processor_name()},
                              {"usable_threads", usable_threads},
                              {"threads", data.num_readers}});
}

std::string data_timing_path(const std::string& subject) {
  return kept_path(fmt::format("data-{:016x}.json", subject_hash(subject)));
}

void write_data_timing(const std::string& path, const std::string& subject, const KeptDataTiming& kept) {
  const DataTiming& timing = kept.timing;
  TimingJson stages = TimingJson::object();
  for (std::size_t stage = 0; stage < num_sample_stages; ++stage)
    stages[std::string(sample_stage_names[stage])] = timing.stage_seconds[stage];
  const TimingJson json = {{"format", timing_format_version},
                           {"subject", subject},
                           {"measured_at", kept.measured_at},
                           {"distinct_samples", timing.num_distinct},
                           {"storage_bytes", timing.storage_bytes},
                           {"one_thread", rate_json(timing.one_thread)},
                           {"all_threads", rate_json(timing.all_threads)},
                           {"stage_seconds", std::move(stages)},
                           {"reducible_share", timing.reducible_share}};
  write_kept_file(path, json_text(json, 1) + "\n");
}

std::optional<KeptDataTiming> read_data_timing(const std::string& path, const std::string& subject) {
  std::error_code error;
  if (!std::filesystem::exists(path, error) && !error) return std::nullopt;
  constexpr std::size_t most_bytes = std::size_t{1} << 20;
  constexpr std::int64_t end_of_year_9999 = 253'402'300'799;
  try {
    const std::optional<TimingJson> json = parse_json<TimingJson>(read_text_file(path, most_bytes));
    if (!json) throw DataError("it is not JSON");
    const JsonInput<TimingJson> file(*json);
    if (file.at("format").integer() != timing_format_version) throw DataError("it is of another version of trainer");
    if (file.at("subject").text() != subject) throw DataError("it is of other data or of another machine");
    KeptDataTiming kept;
    kept.measured_at = file.at("measured_at").integer(0, end_of_year_9999);
    DataTiming& timing = kept.timing;
    timing.num_distinct = file.at("distinct_samples").integer(1, most_samples_timed);
    timing.storage_bytes = file.at("storage_bytes").integer();
    timing.one_thread = rate_of(file.at("one_thread"));
    timing.all_threads = rate_of(file.at("all_threads"));
    const JsonInput<TimingJson> stages = file.at("stage_seconds");
    for (std::size_t stage = 0; stage < num_sample_stages; ++stage)
      timing.stage_seconds[stage] = stages.at(sample_stage_names[stage]).number(0, most_seconds_timed);
    timing.reducible_share = file.at("reducible_share").number(0, 1);
    return kept;
  } catch (const DataError& reason) {
    throw DataError(
        fmt::format("the measured speed of the data in {} cannot be used: {}; '{} CONFIG --data' measures it anew",
                    path, reason.what(), trainer_command("bench")));
  }
}

}  // namespace trainer
