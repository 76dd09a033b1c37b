#pragma once

#include <span>
#include <string>

#include "engine/findings/plan_findings.h"
#include "engine/report/text/style.h"

namespace trainer {

/// "rank 0", "ranks 1 to 3", with their GPU where ranks have different ones.
std::string ranks_text(const RankPlan& plan);
/// " (stage 2 of 4: h.3 to h.5)"; empty: there is no pipeline.
std::string stage_text(const RankPlan& plan, const PlanFindings& findings);
/// What each of several ranks holds, a table; of several plans, those of stages, with the stage in front.
std::string ranks_table(std::span<const PlanFindings* const> plans, const Style& style);
/// What each of them holds by category when it holds the most, a table.
std::string ranks_by_category_table(const PlanFindings& findings, const Style& style);
/// What rank 0 would hold, and send, with each value of parallel.shard, a table.
std::string shards_table(const PlanFindings& findings, const Style& style);
/// What each of them sends, how long that takes and which share of a step is left for computing, as sentences.
std::string communication_text(const PlanFindings& findings);
/// The same of stages, which have the same ranks.
std::string communication_of_stages(std::span<const PlanFindings* const> stages, const Style& style);
/// Those that do not fit: "ranks 4 to 7 (t4) would reserve 16.66 GiB of 14.35 GiB"; empty: all do.
std::string ranks_that_do_not_fit(const PlanFindings& findings);
/// Where all fit and others have less to spare than rank 0: " Ranks 4 to 7 (t4) have the least: 2.31 GiB of 14.35
/// GiB."; else empty.
std::string tightest_ranks_text(const PlanFindings& findings);
/// Where rank 0 fits and others, on another GPU, do not: what tells what would fit there. Else empty.
std::string ending_of_ranks(const PlanFindings& findings, const Style& style);

}  // namespace trainer
