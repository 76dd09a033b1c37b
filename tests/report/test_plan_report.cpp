#include <catch2/catch.hpp>

#include "engine/report/plan_report.h"
#include "tests/report/report_samples.h"

using namespace trainer;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

PlanFindings sample_findings() {
  PlanFindings findings;
  findings.experiment_name = "digits";
  findings.device_kind = "cpu";
  findings.device_name = "a processor";
  findings.capacity = 8 << 20;
  findings.capacity_origin = "memory.limit";
  findings.batch_size = 32;
  findings.total_steps = 12;
  findings.outside_allocator = {{"this process", 10 << 20}};
  findings.layer_labels = {"0 (linear)", "2 (conv2d)"};
  MemoryPlan& plan = findings.plan;
  plan.peak_requested = 5 << 20;
  plan.peak_allocated = 5 << 20;
  plan.peak_reserved = 6 << 20;
  plan.first_step = {4 << 20, 4 << 20, 6 << 20, 1 << 20, 1 << 20, 6 << 20};
  plan.steady_step = {5 << 20, 5 << 20, 6 << 20, 1 << 20, 1 << 20, 6 << 20};
  const StepMemory odd = {3 << 20, 3 << 20, 6 << 20, 1 << 20, 1 << 20, 6 << 20};
  plan.steps = {{0, 1, false, {1 << 20, 1 << 20, 2 << 20, 1 << 20, 1 << 20, 2 << 20}},
                {1, 1, false, plan.first_step},
                {2, 10, false, plan.steady_step},
                {12, 1, false, odd},
                {12, 1, true, {2 << 20, 2 << 20, 6 << 20, 1 << 20, 1 << 20, 6 << 20}}};
  plan.peak.allocated = 32'768;
  plan.peak.step = 2;
  plan.peak.phase = Phase::backward;
  plan.peak.layer = "2 (conv2d)";
  plan.peak.op = "conv2d_backward_weight";
  plan.peak.live = sample_context().live;
  plan.peak.timeline = sample_context().timeline;
  return findings;
}

}  // namespace

TEST_CASE("activations that wait in host memory are told, and on the CPU that they save nothing") {
  PlanFindings findings = sample_findings();
  CHECK_FALSE(has(plan_report(findings, {}), "Activations wait"));
  findings.offload_bytes = 3 << 20;
  CHECK(has(plan_report(findings, {}), "Activations wait in 3.00 MiB of this machine's memory"));
  CHECK(has(plan_report(findings, {}), "memory.offload"));
  findings.device_kind = "cuda";
  CHECK(has(plan_report(findings, {}), "Activations wait in 3.00 MiB of the host's memory, page-locked"));
  CHECK_FALSE(has(plan_report(findings, {}), "memory.offload"));
}

TEST_CASE("a plan that fits tells the margin, the stages apart, the peak and its holders") {
  const std::string report = plan_report(sample_findings(), {});
  CHECK(has(report, "Plan of digits: 12 steps of batch 32 on cpu (a processor)\n"));
  CHECK(has(report, "Fits. It reserves 6.00 MiB of the capacity of 8.00 MiB (memory.limit): 2.00 MiB (25.0 %) to"));
  CHECK(has(report, "Outside the allocator, not counted here: 10.00 MiB (this process).\n"));
  for (const char* line : {"  loading             1.00 MiB        1.00 MiB       2.00 MiB         1.00 MiB\n",
                           "  first step          4.00 MiB        4.00 MiB       6.00 MiB         1.00 MiB\n",
                           "  steady step         5.00 MiB        5.00 MiB       6.00 MiB         1.00 MiB\n",
                           "  1 other step        3.00 MiB        3.00 MiB       6.00 MiB         1.00 MiB\n",
                           "  evaluation          2.00 MiB        2.00 MiB       6.00 MiB         1.00 MiB\n",
                           "  run                 5.00 MiB        5.00 MiB       6.00 MiB\n",
                           "  32.00 KiB allocated in step 2, backward, 2 (conv2d), op conv2d_backward_weight\n"})
    CHECK_THAT(report, Catch::Contains(line));
  CHECK(has(report, "unaccounted for        0 B"));
  CHECK(has(report, "▾ peak 32.00 KiB"));
  CHECK(!has(report, "What to change"));
  for (const std::string& line : lines_of(report)) CHECK(display_width(line) <= 100);
}

TEST_CASE("a plan that does not fit tells where it fails, what it would take, and what fits") {
  PlanFindings findings = sample_findings();
  findings.unbounded = findings.plan;
  findings.unbounded->peak_reserved = 9 << 20;
  findings.plan.fits = false;
  findings.plan.failure = sample_context();
  findings.fixes = sample_fixes();
  findings.largest_batch_size = 16;
  const std::string report = plan_report(findings, {});
  CHECK(
      has(report, "Does not fit the capacity of 8.00 MiB (memory.limit). Without a bound it would reserve 9.00 MiB."));
  CHECK(has(report, "in step 3, backward, 2 (conv2d)"));
  CHECK(has(report, "  The largest batch that fits is 16 (now 32).\n"));
  CHECK(has(report, "  1. train.batch_size=16 train.accumulation_steps=4\n"));
  findings.largest_batch_size = 0;
  CHECK(has(plan_report(findings, {}), "No batch size fits, not even 1."));
}

TEST_CASE("a plan for a described device says so, names each part outside, and whether scratch is exact") {
  PlanFindings findings = sample_findings();
  CHECK_FALSE(has(plan_report(findings, {}), "Scratch"));
  findings.device_kind = "cuda";
  findings.device_name = "NVIDIA H200";
  findings.profile = "configs/gpus/h200.yaml";
  findings.outside_allocator = {{"estimated CUDA context", 391 << 20}, {"estimated handles", 90 << 20}};
  std::string report = plan_report(findings, {});
  CHECK(has(report, "on cuda (NVIDIA H200)\nThe device is described by configs/gpus/h200.yaml; nothing has run"));
  CHECK(has(report, "not counted here: 481.00 MiB (estimated CUDA context 391.00 MiB,"));
  CHECK(has(report, "Scratch is exact"));
  findings.workspace_bound = "Scratch is counted with its bound.";
  report = plan_report(findings, {});
  CHECK(has(report, "\nScratch is counted with its bound.\n"));
  CHECK_FALSE(has(report, "Scratch is exact"));
}
