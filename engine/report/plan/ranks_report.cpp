#include "engine/report/plan/ranks_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/bytes.h"
#include "engine/config/fields/enum_choices.h"
#include "engine/report/memory/memory_table.h"
#include "engine/report/text/layout_text.h"
#include "engine/report/text/shell_words.h"
#include "engine/report/text/step_time_text.h"
#include "engine/report/text/text_table.h"

namespace trainer {
namespace {

/// Why nobody can say how long ranks wait for what they tell each other.
std::string reason_for_no_time(const PlanFindings& findings) {
  const RankFindings& ranks = findings.ranks;
  if (findings.device_kind != "cuda") return "how fast ranks on CPUs reach one another was not measured";
  if (ranks.links.within.name.empty()) return "no profile describes the links of this GPU";
  if (!ranks.links.within.is_known() && ranks.links.ranks_per_node > 1)
    return fmt::format("a GPU's profile does not say links.pcie{}",
                       ranks.links.within.name == "PCIe" ? ", and they have no NVLink in common" : "");
  return fmt::format("the ranks are on {}, and a GPU's profile does not say links.network",
                     format_number_of(num_nodes({ranks.size()}, ranks.links), "machine"));
}

std::string sentence_of_no_time(const PlanFindings& findings) {
  return fmt::format("The time of that is not known, and left out of the time of a step: {}.",
                     reason_for_no_time(findings));
}

/// "NVLink", "the network between 2 machines".
std::string link_text(const RankFindings& ranks) {
  const std::int64_t nodes = num_nodes({ranks.size()}, ranks.links);
  std::string name = slowest_link({ranks.size()}, ranks.links)->name;
  if (nodes == 1) return name;
  if (name == ranks.links.between.name) return fmt::format("{} between {} machines", name, format_count(nodes));
  return fmt::format("{} (the network between {} machines is faster)", name, format_count(nodes));
}

/// "32", or "32 in 2 parts".
std::string batch_text(const RankPlan& plan) {
  const std::string samples = format_count(plan.batch_size);
  return plan.num_parts == 1 ? samples : fmt::format("{} in {} parts", samples, plan.num_parts);
}

std::string fits_text(const RankPlan& plan, const RankFindings& ranks) {
  const std::string fits = plan.fits ? "fits" : "does not fit";
  const bool are_alike = std::all_of(ranks.plans.begin(), ranks.plans.end(), [&](const RankPlan& other) {
    return other.peak_reserved == plan.peak_reserved && other.peak_allocated == plan.peak_allocated;
  });
  return !are_alike && &plan == &ranks.highest() ? fits + ", highest" : fits;
}

}  // namespace

std::string ranks_text(const RankPlan& plan) {
  const std::string gpu = plan.gpu.empty() ? "" : fmt::format(" ({})", plan.gpu);
  if (plan.num_ranks == 1) return fmt::format("rank {}{}", format_count(plan.first_rank), gpu);
  const std::int64_t second = plan.first_rank + plan.stride,
                     last = plan.first_rank + (plan.num_ranks - 1) * plan.stride;
  if (plan.stride > 1)
    return fmt::format("ranks {},{} {}{}", format_count(plan.first_rank),
                       plan.num_ranks > 2 ? fmt::format(" {}, …", format_count(second)) : "", format_count(last), gpu);
  return fmt::format("ranks {} to {}{}", format_count(plan.first_rank), format_count(last), gpu);
}

std::string stage_text(const RankPlan& plan, const PlanFindings& findings) {
  if (findings.parallel.pipeline == 1) return "";
  return fmt::format(" (stage {} of {}: {})", plan.stage + 1, findings.parallel.pipeline, plan.layers);
}

std::string ranks_table(std::span<const PlanFindings* const> plans, const Style& style) {
  const bool has_capacities = std::any_of(plans.begin(), plans.end(), [](const PlanFindings* each) {
    return !each->ranks.plans.empty() && !each->ranks.plans.front().gpu.empty();
  });
  std::vector<TextTable::Column> columns;
  if (plans.size() > 1) columns.push_back({"stage", Align::left, Narrow::gives_way});
  columns.push_back({"ranks", Align::left});
  const bool has_layers = std::any_of(plans.begin(), plans.end(), [](const PlanFindings* each) {
    return !each->ranks.plans.empty() && !each->ranks.plans.front().layers.empty();
  });
  if (has_layers) columns.push_back({"layers", Align::left, Narrow::gives_way});
  columns.push_back({"batch"});
  columns.push_back({"allocated", Align::right, Narrow::is_left_out});
  columns.push_back({"reserved"});
  if (has_capacities) columns.push_back({"capacity"});
  columns.push_back({"computes", Align::right, Narrow::is_left_out});
  columns.push_back({"", Align::left});
  TextTable table(std::move(columns));
  for (const PlanFindings* findings : plans) {
    std::string stage = findings->stage;
    for (const RankPlan& plan : findings->ranks.plans) {
      std::vector<std::string> row;
      if (plans.size() > 1) row.push_back(std::exchange(stage, ""));
      row.push_back(ranks_text(plan));
      if (has_layers) row.push_back(plan.layers);
      row.insert(row.end(), {batch_text(plan), format_bytes(plan.peak_allocated), format_bytes(plan.peak_reserved)});
      if (has_capacities) row.push_back(format_bytes(plan.capacity));
      row.insert(row.end(), {step_time_text(plan.compute_seconds), fits_text(plan, findings->ranks)});
      table.add_row(std::move(row));
    }
  }
  return table.render(style);
}

std::string ranks_by_category_table(const PlanFindings& findings, const Style& style) {
  std::vector<LiveMemory::LayerBytes> holders;
  for (const RankPlan& plan : findings.ranks.plans)
    holders.push_back({ranks_text(plan), plan.peak_allocated, plan.by_category});
  return holders_table(holders, "by category", style);
}

std::string shards_table(const PlanFindings& findings, const Style& style) {
  TextTable table({{"parallel.shard", Align::left},
                   {"allocated", Align::right, Narrow::is_left_out},
                   {"reserved"},
                   {"sent"},
                   {"", Align::left}});
  for (const ShardPlan& shard : findings.ranks.shards) {
    std::string remark = shard.fits ? "fits" : "does not fit";
    if (shard.shard == findings.parallel.shard) remark += ", as it is";
    table.add_row({std::string(shard_choices().name_of(shard.shard)), format_bytes(shard.peak_allocated),
                   format_bytes(shard.peak_reserved), format_bytes(shard.communicated_bytes), std::move(remark)});
  }
  return table.render(style);
}

std::string communication_text(const PlanFindings& findings) {
  const RankFindings& ranks = findings.ranks;
  if (ranks.pipeline)
    return fmt::format(
        "{}. Stages compute for {:.1f} % of the time until the last backward pass, and wait for each other for the "
        "rest. To each update a rank sends {} at most.{}",
        layout_text(findings.parallel), 100 * (1 - ranks.pipeline->bubble), format_bytes(ranks.communicated_bytes),
        ranks.communication_seconds ? "" : " " + sentence_of_no_time(findings));
  const std::string sent = fmt::format("To each update every one of the {} sends {}, and receives as much",
                                       format_number_of(ranks.size(), "rank"), format_bytes(ranks.communicated_bytes));
  if (!ranks.communication_seconds) return fmt::format("{}. {}", sent, sentence_of_no_time(findings));
  const double beside = *ranks.communication_seconds - ranks.waiting_seconds;
  const std::string meanwhile =
      beside >= 1e-6 ? fmt::format(", {} of that while they compute", step_time_text(beside)) : std::string();
  return fmt::format("{}: about {} over {}{}. Ranks compute for {:.1f} % of a step, and wait for the rest.", sent,
                     step_time_text(*ranks.communication_seconds), link_text(ranks), meanwhile,
                     100 * *ranks.efficiency());
}

std::string communication_of_stages(std::span<const PlanFindings* const> stages, const Style& style) {
  const auto width = static_cast<std::size_t>(style.width);
  const PlanFindings& first = *stages.front();
  const bool is_known = first.ranks.communication_seconds.has_value();
  std::string sent;
  for (const PlanFindings* stage : stages) {
    const RankFindings& ranks = stage->ranks;
    sent += fmt::format("{}{} in {}", sent.empty() ? "" : ", ", format_bytes(ranks.communicated_bytes), stage->stage);
    if (is_known)
      sent += fmt::format(" ({}, computes for {:.1f} %)", step_time_text(*ranks.communication_seconds),
                          100 * *ranks.efficiency());
  }
  const std::string how = is_known ? fmt::format("Over {}.", link_text(first.ranks)) : sentence_of_no_time(first);
  return "  " +
         wrap(fmt::format("All else here is of rank 0. To each update every one of the {} sends, and receives as much: "
                          "{}. {}",
                          format_number_of(first.ranks.size(), "rank"), sent, how),
              width - 2, "  ") +
         '\n';
}

std::string ranks_that_do_not_fit(const PlanFindings& findings) {
  std::string text;
  for (const RankPlan& plan : findings.ranks.plans)
    if (!plan.fits)
      text += fmt::format("{}{}{} would reserve {} of {}", text.empty() ? "" : ", ", ranks_text(plan),
                          stage_text(plan, findings), format_bytes(plan.peak_reserved), format_bytes(plan.capacity));
  return text;
}

std::string tightest_ranks_text(const PlanFindings& findings) {
  const auto spare = [](const RankPlan& plan) { return plan.capacity - plan.peak_reserved; };
  const std::vector<RankPlan>& plans = findings.ranks.plans;
  const auto tightest = std::ranges::min_element(plans, {}, spare);
  if (tightest == plans.end() || spare(*tightest) >= spare(plans.front()) || spare(*tightest) < 0) return "";
  std::string ranks = ranks_text(*tightest);
  ranks.front() = 'R';
  return fmt::format(" {} {} the least: {} of {}.", ranks, tightest->num_ranks == 1 ? "has" : "have",
                     format_bytes(spare(*tightest)), format_bytes(tightest->capacity));
}

std::string ending_of_ranks(const PlanFindings& findings, const Style& style) {
  const std::vector<RankPlan>& plans = findings.ranks.plans;
  const auto failing =
      std::find_if(plans.begin(), plans.end(), [](const RankPlan& plan) { return !plan.fits && !plan.gpu.empty(); });
  if (!findings.plan.fits || failing == plans.end()) return "";
  std::vector<std::string> words = {"plan", findings.config_path};
  const std::vector<std::string> ranks = {fmt::format("parallel.data={}", findings.parallel.data)};
  for (std::string& word : merged_overrides(findings.overrides, ranks)) words.push_back(std::move(word));
  words.insert(words.end(), {"--gpu", failing->gpu});
  if (!findings.stage.empty()) words.insert(words.end(), {"--stage", findings.stage});
  if (!findings.capacity_given.empty()) words.insert(words.end(), {"--capacity", findings.capacity_given});
  return paint(style, Ink::red,
               wrap(fmt::format("Does not fit: {}.", ranks_that_do_not_fit(findings)),
                    static_cast<std::size_t>(style.width))) +
         fmt::format("\nWhat would fit there, were all ranks on a {}:\n", failing->gpu) + pasted_command(words, style);
}

}  // namespace trainer
