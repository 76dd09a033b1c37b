#include "engine/report/plan/ranks_report.h"

#include <array>
#include <catch2/catch.hpp>

#include "engine/report/plan/plan_report.h"
#include "tests/report/report_samples.h"

using namespace trainer;
using Catch::Contains;

namespace {

constexpr Style wide_style = {false, 1000};

RankPlan rank_plan(std::int64_t first, std::int64_t count, const std::string& gpu, std::int64_t reserved,
                   double seconds) {
  RankPlan plan;
  plan.first_rank = first;
  plan.num_ranks = count;
  plan.gpu = gpu;
  plan.capacity = 8 << 20;
  plan.batch_size = 16;
  plan.fits = reserved <= plan.capacity;
  plan.peak_allocated = reserved / 2;
  plan.peak_reserved = reserved;
  plan.compute_seconds = seconds;
  return plan;
}

/// Two ranks on a fast GPU, six on a slow one.
PlanFindings findings_of_ranks() {
  PlanFindings findings = sample_findings();
  findings.device_kind = "cuda";
  findings.config_path = "c.yaml";
  findings.overrides = {"seed=2"};
  findings.samples_per_step = 128;
  findings.ranks.plans = {rank_plan(0, 2, "h100", 4 << 20, 0.001), rank_plan(2, 6, "t4", 6 << 20, 0.003)};
  findings.ranks.communicated_bytes = 3 << 20;
  findings.ranks.communication_seconds = findings.ranks.waiting_seconds = 0.001;
  findings.ranks.links.within = {"PCIe", 1e9, 0, 0};
  findings.ranks.links.ranks_per_node = 8;
  return findings;
}

}  // namespace

TEST_CASE("ranks wait for the slowest of them, and for what they tell each other") {
  PlanFindings findings = findings_of_ranks();
  CHECK(findings.ranks.size() == 8);
  CHECK(findings.step_seconds() == Approx(0.004));
  CHECK(findings.samples_per_second() == Approx(32000));
  CHECK(*findings.ranks.efficiency() == Approx((2 * 1 + 6 * 3) / (8 * 4.0)));
  findings.ranks.communication_seconds.reset();
  CHECK(findings.step_seconds() == Approx(0.003));
  CHECK_FALSE(findings.ranks.efficiency());
}

TEST_CASE("the table of ranks names their GPUs, which of them reserves most, and what does not fit") {
  PlanFindings findings = findings_of_ranks();
  std::string table = ranks_table(std::array<const PlanFindings*, 1>{&findings}, wide_style);
  CHECK_THAT(table, Contains("ranks 0 to 1 (h100)     16   2.00 MiB  4.00 MiB  8.00 MiB      1 ms  fits\n"));
  CHECK_THAT(table, Contains("fits, highest\n"));
  CHECK(ranks_that_do_not_fit(findings).empty());
  CHECK(ending_of_ranks(findings, wide_style).empty());
  findings.ranks.plans[1] = rank_plan(2, 6, "t4", 9 << 20, 0.003);
  findings.plan.fits = true;
  findings.parallel.data = 8;
  CHECK_FALSE(findings.fits());
  table = ranks_table(std::array<const PlanFindings*, 1>{&findings}, wide_style);
  CHECK_THAT(table, Contains("does not fit, highest\n"));
  CHECK(ranks_that_do_not_fit(findings) == "ranks 2 to 7 (t4) would reserve 9.00 MiB of 8.00 MiB");
  CHECK_THAT(
      plan_report(findings, wide_style),
      Contains("Does not fit on every rank: ranks 2 to 7 (t4) would reserve 9.00 MiB of 8.00 MiB. Rank 0 fits. "));
  CHECK_THAT(ending_of_ranks(findings, wide_style), Contains("trainer plan c.yaml seed=2 parallel.data=8 --gpu t4\n"));
  // Of several stages each begins with its name.
  PlanFindings other = findings_of_ranks();
  findings.stage = "head";
  other.stage = "whole";
  table = ranks_table(std::array<const PlanFindings*, 2>{&findings, &other}, wide_style);
  CHECK_THAT(table, Contains("  head   ranks 0 to 1 (h100)") && Contains("\n         ranks 2 to 7 (t4)") &&
                        Contains("  whole  ranks 0 to 1 (h100)"));
}

TEST_CASE("where the time on the wire is not known, it is said why") {
  PlanFindings findings = findings_of_ranks();
  CHECK(communication_text(findings) ==
        "To each update every one of the 8 ranks sends 3.00 MiB, and receives as much: about 1 ms over PCIe. Ranks "
        "compute for 62.5 % of a step, and wait for the rest.");
  findings.ranks.waiting_seconds = 0.0002;
  CHECK(communication_text(findings) ==
        "To each update every one of the 8 ranks sends 3.00 MiB, and receives as much: about 1 ms over PCIe, 800 µs of "
        "that while they compute. Ranks compute for 78.1 % of a step, and wait for the rest.");
  findings.ranks.waiting_seconds = 0.001;
  findings.ranks.links.ranks_per_node = 4;
  findings.ranks.links.between = {"the network", 1e8, 0, 0};
  CHECK_THAT(communication_text(findings), Contains("about 1 ms over the network between 2 machines. "));
  findings.ranks.links.between.bytes_per_second = 1e15;
  CHECK_THAT(communication_text(findings),
             Contains("about 1 ms over PCIe (the network between 2 machines is faster). "));
  findings.ranks.communication_seconds.reset();
  findings.ranks.links.between.bytes_per_second = 0;
  CHECK_THAT(communication_text(findings),
             Contains("The time of that is not known, and left out of the time of a step: "
                      "the ranks are on 2 machines, and a GPU's profile does not say "
                      "links.network."));
  findings.ranks.links.within.bytes_per_second = 0;
  CHECK_THAT(communication_text(findings), Contains("does not say links.pcie, and they have no NVLink in common."));
  findings.ranks.links = {};
  CHECK_THAT(communication_text(findings), Contains("no profile describes the links of this GPU."));
  findings.device_kind = "cpu";
  CHECK_THAT(communication_text(findings), Contains("how fast ranks on CPUs reach one another was not measured."));
  // Of stages once.
  findings.stage = "head";
  PlanFindings other = findings;
  other.stage = "whole";
  other.ranks.communicated_bytes = 5 << 20;
  const std::string text = communication_of_stages(std::array<const PlanFindings*, 2>{&findings, &other}, wide_style);
  CHECK_THAT(text, Contains("receives as much: 3.00 MiB in head, 5.00 MiB in whole. The time of that"));
  CHECK(text.find("was not measured") == text.rfind("was not measured"));
}
