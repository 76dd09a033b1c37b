#include <catch2/catch.hpp>

#include "engine/report/memory/out_of_memory_report.h"
#include "tests/report/report_samples.h"

using namespace trainer;

namespace {

std::string sample_report(const Style& style = {}) {
  const std::vector<std::string> labels = {"0 (linear)", "2 (conv2d)"};
  return out_of_memory_report({sample_context(), sample_fixes()},
                              {"cpu", labels, "mnist.yaml", {"train.batch_size=64", "seed=2"}}, style);
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("the message has the words of PyTorch's and names the segment, not the request") {
  CHECK(out_of_memory_message(sample_context().failure, "cpu") ==
        "Out of memory. Tried to allocate 20.00 MiB. Device cpu has a total capacity of 8.00 MiB of which 6.00 MiB is "
        "free. 32.00 KiB is allocated, and 1.97 MiB is reserved but unallocated.");
}

TEST_CASE("the report tells where, how much, who, and what to change") {
  const std::string report = sample_report();
  CHECK(report.starts_with("Out of memory. Tried to allocate 20.00 MiB. Device cpu"));
  for (const char* part :
       {"  step                3\n", "  phase               backward\n", "  layer               2 (conv2d)\n",
        "  op                  conv2d_backward_weight\n", "  buffer              2.weight.grad (gradient)\n",
        "  found               while running\n",
        "  request             19.07 MiB, rounded to 19.07 MiB, for which 20.00 MiB were asked of the device\n",
        "  capacity            8.00 MiB\n", "  reserved            2.00 MiB\n", "  free                6.00 MiB\n",
        "  allocated           32.00 KiB (requested 31.25 KiB)\n", "  cached              1.97 MiB\n",
        "  largest free block  1008.00 KiB\n", "  fragmentation       50.0 %\n"})
    CHECK_THAT(report, Catch::Contains(part));
  CHECK(has(report, "unaccounted for        0 B"));
  CHECK(has(report, "0.output"));
  CHECK(has(report,
            "  1. train.batch_size=16 train.accumulation_steps=4\n"
            "     64 samples an update, 16 at a time\n"
            "     4.00 MiB of 8.00 MiB; same result but for rounding; 1.25 x the time a sample\n"));
  CHECK(has(report, "     does not fit, 9.00 MiB of 8.00 MiB; changes the result; about the same time a sample\n"));
  CHECK(has(report,
            "Paste the first:\n  trainer run mnist.yaml seed=2 train.batch_size=16 train.accumulation_steps=4\n"));
  CHECK(has(report, "  reserved           segments held from the device"));
}

TEST_CASE("the report names the allocator, and that no other would have helped") {
  OutOfMemoryEvent event{sample_context(), sample_fixes()};
  const auto says = [&](const std::string& words) {
    return has(out_of_memory_report(event, {"cpu", {}, "", {}}, {}), words);
  };
  CHECK(says("  allocator           caching\n"));
  event.allocator_was_chosen = true;
  CHECK(says("  allocator           caching (memory.allocator: auto)\n"));
  event.planned_does_not_fit_either = true;
  CHECK(says("  allocator           caching (memory.allocator: auto; planned does not fit either)\n"));
  event.allocator = AllocatorKind::planned;
  event.planned_does_not_fit_either = false;
  CHECK(says("  allocator           planned (memory.allocator: auto)\n"));
}

TEST_CASE("the report of a refused segment tells who would hold it at the peak") {
  OutOfMemoryContext context = sample_context();
  context.failure.statistics = {};
  context.failure.largest_free_block = 0;
  context.refused_peak = 32'768;
  context.buffer = "planned segment";
  const std::string report = out_of_memory_report({context, sample_fixes()}, {"cpu", {}, "mnist.yaml", {}}, {});
  CHECK(report.starts_with("Out of memory. Tried to allocate 20.00 MiB. Device cpu"));
  CHECK(has(report, "Who would hold it at the peak\n"));
  CHECK(has(report, "The step of the peak (allocated)\n"));
  CHECK(has(report, "memory.allocator: planned"));
  CHECK(has(report, "  reserved            0 B\n"));
  CHECK(has(report, "unaccounted for        0 B"));
  CHECK_FALSE(has(report, "  buffer  "));
}

TEST_CASE("no line of the report is wider than 100 columns, also with long names and many layers") {
  OutOfMemoryContext context = sample_context();
  const std::string name(300, 'x');
  context.layer = context.buffer = name;
  for (int i = 0; i < 200; ++i) {
    context.live.by_layer.push_back({name + std::to_string(i), 512});
    context.timeline.push_back({Phase::update, i, 100});
  }
  context.live.top.assign(10, {name, name, Category::optimizer_state, std::int64_t{1} << 50});
  context.failure.capacity = std::int64_t{1} << 50;
  const std::vector<std::string> labels(200, name);
  std::vector<Change> fixes = sample_fixes();
  fixes[0].set.assign(6, "model.layers.2.conv2d.out_with_a_long_name=11");
  for (const std::string& line : lines_of(out_of_memory_report({context, fixes}, {"cpu", labels, "a.yaml", {}}, {}))) {
    INFO(line);
    // A single word cannot be broken.
    if (!has(line, name)) CHECK(display_width(line) <= 100);
  }
}

TEST_CASE("what the plan found says that nothing was lost") {
  OutOfMemoryContext context = sample_context();
  context.planned = true;
  context.step = 0;
  context.layer.clear();
  context.op.clear();
  const std::string report = out_of_memory_report({context, {}}, {"cpu", {}, "", {}}, {});
  CHECK(has(report, "by the plan, before the first step"));
  CHECK(has(report, "loading the model"));
  CHECK(has(report, "(no layer)"));
  CHECK(has(report, "No change was found"));
}

TEST_CASE("colour changes no character of the report") {
  std::string colored = sample_report({true, 100});
  CHECK(colored.find('\x1b') != std::string::npos);
  for (std::size_t at = colored.find('\x1b'); at != std::string::npos; at = colored.find('\x1b'))
    colored.erase(at, colored.find('m', at) - at + 1);
  CHECK(colored == sample_report());
}

TEST_CASE("what lies outside the allocator is named, and other processes with their share of the device") {
  OutOfMemoryEvent event{sample_context(), {}};
  CHECK_FALSE(has(out_of_memory_report(event, {"cuda:0", {}, "", {}}, {}), "Outside the allocator"));
  event.outside_allocator = {{"CUDA context", 100 << 20}, {"library handles", 28 << 20}};
  event.device_total = std::int64_t{1} << 30;
  std::string report = out_of_memory_report(event, {"cuda:0", {}, "", {}}, {});
  CHECK(has(report, "  of this process     100.00 MiB, CUDA context\n"));
  CHECK(has(report, "  of this process     28.00 MiB, library handles\n"));
  CHECK_FALSE(has(report, "other process"));
  event.other_processes = {{4711, "python3", 512 << 20}, {12, "", 256 << 20}};
  report = out_of_memory_report(event, {"cuda:0", {}, "", {}}, {});
  CHECK_THAT(report, Catch::Contains("  other process   pid       bytes  of the device\n"
                                     "  python3        4711  512.00 MiB         50.0 %\n"
                                     "  (unknown)        12  256.00 MiB         25.0 %\n"
                                     "  ──────────────────────────────────────────────\n"
                                     "  together             768.00 MiB         75.0 %\n"));
}

TEST_CASE("the report says why it does not fit, and what is not enough") {
  OutOfMemoryEvent event{sample_context(), sample_fixes()};
  CHECK_FALSE(has(out_of_memory_report(event, {"cpu", {}, "", {}}, {}), "Why it does not fit"));
  Diagnosis& diagnosis = event.diagnosis;
  diagnosis.is_known = true;
  diagnosis.capacity = 8 << 20;
  diagnosis.peak_requested = 12 << 20;
  diagnosis.peak_reserved = 14 << 20;
  diagnosis.training_peak = 14 << 20;
  diagnosis.persistent = diagnosis.persistent_requested = 9 << 20;
  const auto says = [&](const std::string& words) {
    return has(out_of_memory_report(event, {"cpu", {}, "", {}}, {false, 1000}), words);
  };
  CHECK(says("takes 9.00 MiB alone"));
  CHECK(says("It is not fragmentation: 12.00 MiB are in use at the peak, 4.00 MiB more than the capacity."));
  diagnosis.persistent_requested = 1 << 20;
  diagnosis.largest_buffer = "2.output";
  diagnosis.largest_layer = "2 (conv2d)";
  diagnosis.largest_bytes = 10 << 20;
  CHECK_FALSE(says("held throughout"));
  CHECK(says("One buffer, 2.output of 2 (conv2d), takes 10.00 MiB in one piece"));
  diagnosis.largest_bytes = 1 << 20;
  diagnosis.peak_requested = 7 << 20;
  CHECK(says("It is fragmentation: 7.00 MiB are in use at the peak, which would fit, and the other 7.00 MiB"));
  CHECK_FALSE(says("memory.allocator=planned"));
  diagnosis.placed_peak = 8 << 20;
  CHECK(says("memory.allocator=planned, is enough."));
  diagnosis.placed_peak = 9 << 20;
  CHECK(says("memory.allocator=planned, it still takes 9.00 MiB."));
  diagnosis.evaluation_peak = 14 << 20;
  diagnosis.training_peak = 6 << 20;
  CHECK(says("Training fits (6.00 MiB reserved); the evaluation does not (14.00 MiB)."));
  CHECK_FALSE(says("train.checkpointing and memory.update do not help"));
  diagnosis.evaluation_requested = 9 << 20;
  CHECK(says("train.checkpointing and memory.update do not help"));
  diagnosis.held_by_others = 6 << 20;
  diagnosis.fits_without_others = true;
  CHECK(says("Other processes hold 6.00 MiB of this device; if they ended, it would fit as it is."));
  diagnosis.fits_without_others = false;
  CHECK(says("it would not fit if they ended either."));
  diagnosis.not_enough = {sample_fixes().back()};
  CHECK(says("Planned, and not enough alone: optimizer.momentum=0 (9.00 MiB)."));
}

TEST_CASE("the line to paste replaces or resumes the run that the output folder holds") {
  using Holds = OutOfMemoryReportOptions::Holds;
  OutOfMemoryEvent event{sample_context(), sample_fixes()};
  const auto says = [&](Holds holds, const char* text) {
    return has(out_of_memory_report(event, {"cpu", {}, "mnist.yaml", {}, holds}, {}), text);
  };
  event.fixes.front().numbers = NumbersEffect::same_rounding;
  CHECK(says(Holds::other_run, "train.accumulation_steps=4 --overwrite\n"));
  CHECK(says(Holds::own_run, "Paste the first, which replaces the run in its folder"));
  CHECK(says(Holds::own_run, "train.accumulation_steps=4 --overwrite\n"));
  CHECK_FALSE(says(Holds::nothing, "train.accumulation_steps=4 --"));
  event.fixes.front().numbers = NumbersEffect::same_bits;
  CHECK(says(Holds::own_run, "Paste the first, which goes on from the step that was saved:\n"));
  CHECK(says(Holds::own_run, "train.accumulation_steps=4 --resume\n"));
  CHECK(says(Holds::other_run, "train.accumulation_steps=4 --overwrite\n"));
}

TEST_CASE("the end of the report leaves a terminal of 80 columns and 24 lines room for the prompt") {
  OutOfMemoryEvent event{sample_context(), sample_fixes()};
  event.fixes.insert(event.fixes.begin(), sample_fixes().front());
  event.fixes.front().set = {"train.amp=bf16", "memory.gradients=16bit", "memory.master_weights=false"};
  event.fixes.front().parts = {Effect::half_operands, Effect::half_gradients, Effect::half_weights};
  event.fixes.front().peak_reserved = (std::int64_t{1} << 30) - 1024;
  Diagnosis& diagnosis = event.diagnosis;
  diagnosis.is_known = true;
  diagnosis.capacity = 8 << 20;
  diagnosis.peak_requested = diagnosis.peak_reserved = 12 << 20;
  OutOfMemoryReportOptions options = {"cpu",
                                      {},
                                      "configs/cifar10_resnet18.yaml",
                                      {"train.epochs=20", "seed=2"},
                                      OutOfMemoryReportOptions::Holds::own_run};
  options.file = "runs/cifar10-resnet18/out_of_memory.txt";
  options.full = false;
  const Style narrow = {.color = false, .width = 80};
  const std::string ending = out_of_memory_ending(event, options, narrow);
  INFO(ending);
  const std::vector<std::string> lines = lines_of(ending);
  CHECK(lines.size() <= 23);
  for (const std::string& line : lines) CHECK(display_width(line) <= 80);
  CHECK(has(ending, "Out of memory in step 3, backward, layer 2 (conv2d): 19.07 MiB for\n2.weight.grad.\n"));
  CHECK(has(ending, "It uses 12.00 MiB at its peak; the capacity is 8.00 MiB: 4.00 MiB missing.\n"));
  CHECK(has(ending, "The whole report, with 1 more: runs/cifar10-resnet18/out_of_memory.txt\n"));
  options.full = true;
  CHECK_FALSE(has(out_of_memory_ending(event, options, narrow), "The whole report"));
}

TEST_CASE("shortened, what was found has neither buffers nor chart nor words") {
  const std::vector<std::string> labels = {"0 (linear)", "2 (conv2d)"};
  OutOfMemoryReportOptions options = {"cpu", labels, "mnist.yaml", {}};
  const OutOfMemoryEvent event{sample_context(), sample_fixes()};
  for (const char* part : {"largest buffers", "The step until then", "Words"}) {
    INFO(part);
    options.full = true;
    CHECK(has(out_of_memory_findings(event, options, {}), part));
    options.full = false;
    CHECK_FALSE(has(out_of_memory_findings(event, options, {}), part));
  }
}
