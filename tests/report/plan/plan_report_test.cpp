#include <catch2/catch.hpp>

#include "engine/report/plan/comparison_report.h"
#include "engine/report/plan/plan_peak.h"
#include "engine/report/plan/plan_report.h"
#include "engine/report/plan/plan_stages.h"
#include "engine/report/plan/verification_report.h"
#include "tests/report/report_samples.h"

using namespace trainer;

namespace {

bool tells(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

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
  CHECK_FALSE(tells(plan_report(findings, {}), "Activations wait"));
  findings.offload_bytes = 3 << 20;
  CHECK(tells(plan_report(findings, {}), "Activations wait in 3.00 MiB of this machine's memory"));
  CHECK(tells(plan_report(findings, {}), "memory.offload"));
  findings.device_kind = "cuda";
  CHECK(tells(plan_report(findings, {}), "Activations wait in 3.00 MiB of the host's memory, page-locked"));
  CHECK_FALSE(tells(plan_report(findings, {}), "memory.offload"));
}

TEST_CASE("a plan that fits tells the margin, the stages apart, the peak and its holders") {
  const std::string report = plan_report(sample_findings(), {});
  CHECK(tells(report, "Plan of digits: 12 steps of batch 32 on cpu (a processor)\n"));
  CHECK(tells(report, "Fits. It reserves 6.00 MiB of the capacity of 8.00 MiB (memory.limit): 2.00 MiB (25.0 %) to"));
  PlanFindings placed = sample_findings();
  placed.allocator = AllocatorKind::planned;
  CHECK(!tells(plan_report(placed, {}), "memory.allocator"));
  placed.allocator_was_chosen = true;
  CHECK_THAT(
      plan_report(placed, {false, 1000}),
      Catch::Contains(
          "memory.allocator: auto stands for planned here: with segments of the caching allocator it does not fit."));
  CHECK(tells(report, "Outside the allocator, not counted here: 10.00 MiB (this process).\n"));
  for (const char* line : {"  loading             1.00 MiB        1.00 MiB       2.00 MiB         1.00 MiB\n",
                           "  first step          4.00 MiB        4.00 MiB       6.00 MiB         1.00 MiB\n",
                           "  steady step         5.00 MiB        5.00 MiB       6.00 MiB         1.00 MiB\n",
                           "  1 other step        3.00 MiB        3.00 MiB       6.00 MiB         1.00 MiB\n",
                           "  evaluation          2.00 MiB        2.00 MiB       6.00 MiB         1.00 MiB\n",
                           "  run                 5.00 MiB        5.00 MiB       6.00 MiB\n",
                           "  32.00 KiB allocated in step 2, backward, 2 (conv2d), op conv2d_backward_weight.\n"})
    CHECK_THAT(report, Catch::Contains(line));
  CHECK(tells(report, "unaccounted for        0 B"));
  CHECK(tells(report, "peak 32.00 KiB, backward, 2 (conv2d)"));
  CHECK(!tells(report, "What to change"));
  for (const std::string& line : lines_of(report)) CHECK(display_width(line) <= 100);
}

TEST_CASE("a plan that does not fit tells where it fails, what it would take, and what fits") {
  PlanFindings findings = sample_findings();
  findings.unbounded = findings.plan;
  findings.unbounded->peak_reserved = 9 << 20;
  findings.plan.fits = false;
  findings.plan.failure = sample_context();
  findings.fixes = sample_fixes();
  findings.largest_batch.value = 16;
  findings.largest_batch.peak_reserved = 7 << 20;
  const std::string report = plan_report(findings, {});
  CHECK(tells(report,
              "Does not fit the capacity of 8.00 MiB (memory.limit). Without a bound it would reserve 9.00 MiB."));
  CHECK(tells(report, "in step 3, backward, 2 (conv2d)"));
  PlanFindings chosen = findings;
  chosen.planned_peak = 17 << 19;
  CHECK_THAT(
      plan_report(chosen, {false, 1000}),
      Catch::Contains(" Without a bound it would reserve 9.00 MiB, or 8.50 MiB with memory.allocator: planned."));
  CHECK(tells(report, "Every batch up to 16 fits (now 32); 16 leaves 1.00 MiB of the capacity.\n"));
  CHECK(tells(report, "  1. train.batch_size=16 train.accumulation_steps=4\n"));
  findings.largest_batch = {};
  findings.one_sample_is_too_many = true;
  CHECK(tells(plan_report(findings, {}), "A batch of 1 does not fit either."));
}

TEST_CASE("a plan for a described device says so, names each part outside, and whether scratch is exact") {
  PlanFindings findings = sample_findings();
  CHECK_FALSE(tells(plan_report(findings, {}), "Scratch"));
  findings.device_kind = "cuda";
  findings.device_name = "NVIDIA H200";
  findings.profile = "configs/gpus/h200.yaml";
  findings.outside_allocator = {{"estimated CUDA context", 391 << 20}, {"estimated handles", 90 << 20}};
  std::string report = plan_report(findings, {});
  CHECK(tells(report, "on cuda (NVIDIA H200)\nThe device is described by configs/gpus/h200.yaml; nothing has run"));
  CHECK(tells(report, "not counted here: 481.00 MiB (estimated CUDA context 391.00 MiB,"));
  CHECK(tells(report, "Scratch is exact"));
  findings.workspace_bound = "Scratch is counted with its bound.";
  report = plan_report(findings, {});
  CHECK(tells(report, "\nScratch is counted with its bound.\n"));
  CHECK_FALSE(tells(report, "Scratch is exact"));
}

TEST_CASE("the peak is explained: what the op needs, what is kept and by whom, and what is there anyway") {
  PlanPeak peak = sample_findings().plan.peak;
  CHECK(peak_explanation(peak) == "32.00 KiB allocated in step 2, backward, 2 (conv2d), op conv2d_backward_weight.");
  peak.uses.read = 4096;
  peak.uses.workspace = 2048;
  peak.uses.kept = 10'240;
  peak.uses.kept_by_layer = {{"0 (linear)", 8192}, {"1 (relu)", 2048}};
  peak.uses.standing = 6144;
  peak.uses.recomputed = 10'240;
  CHECK(
      peak_explanation(peak) ==
      "32.00 KiB allocated in step 2, backward, 2 (conv2d), op conv2d_backward_weight, which reads 4.00 KiB and works "
      "in 2.00 KiB of scratch. 10.00 KiB is kept from the forward pass for the backward pass: of 0 (linear) (8.00 KiB) "
      "and 1 (relu) (2.00 KiB). 10.00 KiB was computed again and 6.00 KiB is there all the time (parameters, optimizer "
      "state).");
}

TEST_CASE("the first step is told against the steady one, and training against evaluation") {
  PlanFindings findings = sample_findings();
  findings.eval_batch_size = 48;
  CHECK_THAT(stages_report(findings, {false, 1000}),
             Catch::Contains("The first and the steady step are not of the same batches: the steady one asks"));
  CHECK_THAT(stages_report(findings, {false, 1000}),
             Catch::Contains("Training sets the peak. Evaluation, in batches of 48, is allocated 3.00 MiB less, but"));
  findings.evaluation_savings.of_one_are_nothing = true;
  CHECK_THAT(stages_report(findings, {false, 1000}), Catch::Contains("train.eval_batch_size=1 would save nothing."));
  findings.evaluation_savings.is_proven_nothing = true;
  CHECK_THAT(stages_report(findings, {false, 1000}),
             Catch::Contains("smaller train.eval_batch_size would save nothing"));
  findings.plan.first_step = findings.plan.steady_step;
  CHECK_THAT(
      stages_report(findings, {false, 1000}),
      Catch::Contains("The first step reserves all that the run needs, and the steady one repeats it to the byte."));
  findings.plan.peak_reserved += 2 << 20;
  CHECK_THAT(stages_report(findings, {false, 1000}), Catch::Contains("The steady step repeats the first to the byte."));
  findings.plan.peak_reserved -= 2 << 20;
  findings.plan.first_step.peak_allocated += 1 << 20;
  findings.plan.first_step.peak_reserved -= 2 << 20;
  CHECK_THAT(stages_report(findings, {false, 1000}), Catch::Contains("is allocated 1.00 MiB less at its peak"));
  CHECK_THAT(stages_report(findings, {false, 1000}),
             Catch::Contains("The steady step has 2.00 MiB more reserved: what"));

  findings.plan.steps.back().memory.peak_allocated = 7 << 20;
  findings.plan.peak.phase = Phase::eval;
  findings.evaluation_savings = {.cut = EvaluationCut{24, 5 << 20}};
  CHECK_THAT(stages_report(findings, {false, 1000}),
             Catch::Contains("Evaluation sets the peak: in batches of 48 it is allocated"));
  CHECK_THAT(stages_report(findings, {false, 1000}), Catch::Contains("With train.eval_batch_size=24 the run"));
}

TEST_CASE("the predicted time says where it comes from, and notes are told") {
  PlanFindings findings = sample_findings();
  CHECK_FALSE(tells(plan_report(findings, {}), "samples/s"));
  findings.time.seconds = 0.0025;
  findings.samples_per_step = 32;
  findings.notes = {"--capacity 1TiB is more than there is."};
  CHECK(tells(plan_report(findings, {}),
              "A step takes about 2.5 ms: 12,800 samples/s. The time is assumed for a machine like this"));
  findings.tokens_per_sample = 64;
  CHECK(tells(plan_report(findings, {}), "A step takes about 2.5 ms: 12,800 samples/s, 819,200 tokens/s. The time is"));
  findings.tokens_per_sample = 0;
  CHECK(tells(plan_report(findings, {}), "Note: --capacity 1TiB is more than there is.\n"));
  findings.rates = MachineRates::Origin::measured;
  CHECK(tells(plan_report(findings, {}), "'trainer bench' measured"));
}

TEST_CASE("predicted against measured: equal is said, and one byte is shown and called a mistake") {
  PlanVerification verification;
  verification.lines = {{0, false, {1, 512, 2048, 1, 512, 2048}, {1, 512, 2048, 1, 512, 2048}},
                        {1, false, {3, 1024, 2048, 1, 512, 2048}, {3, 1024, 2048, 1, 512, 2048}},
                        {1, true, {2, 1024, 2048, 1, 512, 2048}, {2, 1024, 2048, 1, 512, 2048}}};
  std::string report = verification_report(verification, {});
  CHECK(tells(report, "The plan equals what was measured, to the byte."));
  CHECK(tells(report, "evaluation after step 1"));
  CHECK_FALSE(tells(report, "No evaluation"));
  verification.lines[1].measured.peak_allocated = 1023;
  CHECK_FALSE(verification.is_equal());
  CHECK(num_different_bytes(verification.lines[1]) == 1);
  report = verification_report(verification, {});
  CHECK_THAT(report, Catch::Contains("peak allocated       1,024     1,023          -1"));
  CHECK(tells(report, "please report it"));
  CHECK_FALSE(PlanVerification{}.is_equal());
}

TEST_CASE("targets are compared by capacity: what fits, what is missing, and why one cannot") {
  PlanComparison comparison;
  comparison.experiment_name = "digits";
  comparison.config_path = "digits.yaml";
  comparison.batch_size = 32;
  PlannedTarget large;
  large.gpu_given = "h200";
  large.profile = "configs/gpus/h200.yaml";
  large.capacity = std::int64_t{100} << 30;
  large.fits = true;
  large.peak_reserved = std::int64_t{9} << 30;
  large.step_seconds = 0.5;
  large.samples_per_second = 64;
  PlannedTarget small = large;
  small.gpu_given = "t4";
  small.capacity = std::int64_t{8} << 30;
  small.fits = false;
  small.batch_size_that_fits = 0;
  PlannedTarget old = small;
  old.gpu_given = "old";
  old.capacity = std::int64_t{1} << 30;
  old.problem = "it has no bf16";
  comparison.targets = {large, small, old};
  comparison.sort();
  CHECK(comparison.targets.front().target() == "old");
  CHECK_FALSE(comparison.fits_all());
  for (const int width : {100, 80}) {
    const std::string report = comparison_report(comparison, {false, width});
    CHECK_THAT(report, Catch::Contains("t4      no      8.00 GiB  9.00 GiB  -1.00 GiB       none found"));
    CHECK_THAT(report, Catch::Contains("h200    yes   100.00 GiB  9.00 GiB  91.00 GiB                   500 ms"));
    CHECK(tells(report, "old: it has no bf16"));
    for (const std::string& line : lines_of(report)) CHECK(display_width(line) <= static_cast<std::size_t>(width));
  }
}
