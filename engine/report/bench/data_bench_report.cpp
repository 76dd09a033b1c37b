#include "engine/report/bench/data_bench_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "engine/bytes.h"
#include "engine/config/text/json_output.h"
#include "engine/report/memory/memory_json.h"
#include "engine/report/text/step_time_text.h"
#include "engine/report/text/text_table.h"

namespace trainer {
namespace {

std::string rate_table(const DataTiming& timing, const Style& style) {
  TextTable table({{"", Align::left}, {"samples/s"}, {"of one thread"}, {"samples read"}});
  const double one = timing.one_thread.samples_per_second();
  const auto add = [&](const ReadingRate& rate) {
    table.add_row({format_number_of(rate.num_threads, "thread"), samples_per_second_text(rate.samples_per_second()),
                   fmt::format("{:.2f} ×", rate.samples_per_second() / one), format_count(rate.num_samples)});
  };
  add(timing.one_thread);
  if (timing.all_threads.num_threads > 1) add(timing.all_threads);
  return table.render(style);
}

std::string stage_table(const DataTiming& timing, const Style& style) {
  TextTable table({{"stage", Align::left}, {"a sample"}, {"share"}});
  const auto& seconds = timing.stage_seconds;
  const double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  for (std::size_t stage = 0; stage < num_sample_stages; ++stage) {
    if (seconds[stage] > 0)
      table.add_row({std::string(sample_stage_names[stage]), step_time_text(seconds[stage]),
                     fmt::format("{:.0f} %", 100 * seconds[stage] / sum)});
  }
  return table.render(style);
}

/// What was read, and where it came from.
std::string told_conditions(const DataBench& bench) {
  const DataTiming& timing = bench.timing;
  std::string text =
      fmt::format("{} of {}, of {} each, each read before it was timed and then again and again; ",
                  format_count(timing.num_distinct), format_number_of(bench.description.num_train, "training sample"),
                  format_bytes(bench.description.sample_bytes()));
  text += timing.storage_bytes > 0
              ? fmt::format("the system fetched {} from storage meanwhile, the rest it had cached.",
                            format_bytes(timing.storage_bytes))
              : "the system counts nothing that it fetched from storage meanwhile.";
  if (timing.reducible_share > 0 && !bench.reduced_decoding)
    text += fmt::format(" data.reduced_decoding=true would decode {:.0f} % of them at a half or less.",
                        100 * timing.reducible_share);
  return text;
}

}  // namespace

Json stage_seconds_json(const DataTiming& timing) {
  Json json = Json::object();
  for (std::size_t stage = 0; stage < num_sample_stages; ++stage)
    json[std::string(sample_stage_names[stage])] = timing.stage_seconds[stage];
  return json;
}

std::string data_bench_report(const DataBench& bench, const Style& style) {
  const auto width = static_cast<std::size_t>(style.width);
  std::string text = wrap(fmt::format("Data of {} on {}", bench.experiment_name, bench.processor), width) + '\n';
  text += heading(style, "Into batches") + rate_table(bench.timing, style);
  text += heading(style, "Where the time of a sample goes, 1 thread") + stage_table(bench.timing, style);
  text += '\n' + wrap(told_conditions(bench), width) + '\n';
  text += fmt::format("Kept for plan in {}\n", bench.path);
  return text;
}

std::string data_bench_json(const DataBench& bench) {
  const auto rate_of = [](const ReadingRate& rate) -> Json {
    return {{"threads", rate.num_threads},
            {"samples", rate.num_samples},
            {"seconds", rate.seconds},
            {"samples_per_second", rate.samples_per_second()}};
  };
  const DataTiming& timing = bench.timing;
  return json_text(Json{{"event", "bench"},
                        {"schema", event_schema_version},
                        {"name", bench.experiment_name},
                        {"processor", bench.processor},
                        {"data",
                         {{"train_samples", bench.description.num_train},
                          {"sample_bytes", bench.description.sample_bytes()},
                          {"distinct_samples", timing.num_distinct},
                          {"storage_bytes", timing.storage_bytes},
                          {"one_thread", rate_of(timing.one_thread)},
                          {"all_threads", rate_of(timing.all_threads)},
                          {"stage_seconds", stage_seconds_json(timing)},
                          {"reducible_share", timing.reducible_share}}},
                        {"kept", bench.path}});
}

}  // namespace trainer
