#include "engine/report/plan/data_supply_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "engine/report/bench/data_bench_report.h"
#include "engine/report/memory/memory_json.h"
#include "engine/report/text/date_text.h"
#include "engine/report/text/shell_words.h"
#include "engine/report/text/step_time_text.h"
#include "engine/trainer_command.h"

namespace trainer {
namespace {

std::string told_percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

/// What to change so that it is prepared faster, in sentences.
std::string remedies(const DataSupply& supply) {
  std::string text;
  if (const int more = supply.more_threads(); more > 0) {
    const double rate = supply.samples_per_second_of(more);
    text += rate >= supply.needed
                ? fmt::format(" data.workers={} should do.", more)
                : fmt::format(" data.workers={} should prepare {}.", more, samples_per_second_text(rate));
  }
  constexpr double worth_telling = 1.2;
  const double kept = supply.samples_per_second_kept();
  const bool may_keep = supply.are_image_files && !supply.are_images_kept && !supply.decodes_reduced;
  const bool keeping_helps = may_keep && kept > worth_telling * supply.timing.all_threads.samples_per_second();
  if (keeping_helps)
    text += fmt::format(" data.cache=disk, which decodes each image once, should prepare at least {}.",
                        samples_per_second_text(kept));
  if (supply.reduction_helps() && !supply.are_images_kept)
    text += fmt::format("{} data.reduced_decoding=true decodes {} of the images at a half or less.",
                        keeping_helps ? " Or" : "", told_percent(supply.timing.reducible_share));
  constexpr double most_of_it = 0.5;
  const SampleStage longest = supply.longest_stage();
  const double share = supply.share_of(longest);
  if (supply.are_image_files && share >= most_of_it) {
    if (longest == SampleStage::decode)
      text += fmt::format(" Decoding takes {} of the time: images stored smaller take less.", told_percent(share));
    if (longest == SampleStage::read && !supply.are_images_kept)
      text += fmt::format(" Reading files takes {} of the time: smaller files take less.", told_percent(share));
  }
  return text;
}

std::string measured_supply(const DataSupply& supply) {
  const ReadingRate& rate = supply.timing.all_threads;
  std::string text =
      fmt::format("Data: needs {} {}/s; {} of this machine {} {} (measured {}).",
                  samples_per_second_text(supply.needed), supply.are_image_files ? "images" : "samples",
                  format_number_of(rate.num_threads, "thread"), rate.num_threads == 1 ? "prepares" : "prepare",
                  samples_per_second_text(rate.samples_per_second()), date_text(supply.measured_at));
  if (supply.steps_use_threads) text += " The steps are computed on the same cores.";
  if (supply.keeps_up() && !supply.steps_use_threads) text += " That is fast enough.";
  if (!supply.keeps_up())
    text += fmt::format(" Training would wait for it {} of the time.", told_percent(supply.waiting_share())) +
            remedies(supply);
  return text;
}

/// A sentence with the command in it, or where quotes would stand in quotes below it.
std::string how_to_measure(const PlanFindings& findings, const Style& style) {
  std::vector<std::string> words = {"bench", findings.config_path};
  words.insert(words.end(), findings.overrides.begin(), findings.overrides.end());
  words.emplace_back("--data");
  const std::string typed = shell_words(words);
  if (typed.find('\'') != std::string::npos)
    return "Data: how fast its images are read was not measured; this does:\n" + pasted_command(words, style);
  return wrap(fmt::format("Data: not measured; '{}' tells how fast its images are read.", trainer_command(typed)),
              static_cast<std::size_t>(style.width)) +
         '\n';
}

}  // namespace

std::string data_supply_text(const PlanFindings& findings, const Style& style) {
  if (findings.total_steps == 0) return "";
  if (!findings.data_supply) return findings.data_is_unmeasured ? how_to_measure(findings, style) : "";
  const DataSupply& supply = *findings.data_supply;
  const std::string text = wrap(measured_supply(supply), static_cast<std::size_t>(style.width));
  return (supply.keeps_up() ? text : paint(style, Ink::yellow, text)) + '\n';
}

Json data_supply_json(const DataSupply& supply) {
  const DataTiming& timing = supply.timing;
  const int more = supply.more_threads();
  return {{"needed_samples_per_second", supply.needed},
          {"samples_per_second", timing.all_threads.samples_per_second()},
          {"threads", timing.all_threads.num_threads},
          {"one_thread_samples_per_second", timing.one_thread.samples_per_second()},
          {"keeps_up", supply.keeps_up()},
          {"waiting_share", supply.waiting_share()},
          {"stage_seconds", stage_seconds_json(timing)},
          {"reducible_share", timing.reducible_share},
          {"suggested_workers", more > 0 ? Json(more) : Json(nullptr)},
          {"measured_at", supply.measured_at}};
}

}  // namespace trainer
