// Note [Branches] in engine/train/branches.h: whatever two queues do first, the memory ends as one queue leaves it.

#include "engine/train/branches.h"

#include <array>
#include <catch2/catch.hpp>
#include <memory>
#include <random>

#include "datasets/dataset.h"
#include "engine/config/load_experiment.h"
#include "engine/memory/simulated_source.h"
#include "engine/plan/allocator_options.h"
#include "engine/plan/live_buffers.h"
#include "engine/plan/make_allocator.h"
#include "engine/program/compile.h"
#include "tests/device/described_device.h"
#include "tests/source_folder.h"

using namespace trainer;

namespace {

using Memory = std::array<std::byte, 24>;

/// Addresses for calls that touch ranges of one memory.
const Memory origin{};
MemoryRange range(std::int64_t begin, std::int64_t num_bytes) { return {origin.data() + begin, num_bytes}; }

CallMemory random_call(std::mt19937& random) {
  constexpr std::array<Branching, 4> kinds = {Branching::none, Branching::none, Branching::begins, Branching::follows};
  CallMemory call{.reads = {}, .writes = {}, .branching = kinds[random() % kinds.size()]};
  const auto random_range = [&] {
    const auto begin = static_cast<std::int64_t>(random() % 20);
    return range(begin, 1 + static_cast<std::int64_t>(random() % 4));
  };
  for (unsigned i = random() % 3; i > 0; --i) call.reads.push_back(random_range());
  for (unsigned i = 1 + random() % 2; i > 0; --i) call.writes.push_back(random_range());
  return call;
}

/// What a call makes depends on all it reads, and on which it is.
void run(const CallMemory& call, std::size_t number, std::vector<std::uint64_t>& memory) {
  std::uint64_t hash = 1469598103934665603U + number;
  const auto for_every_cell = [&](const std::vector<MemoryRange>& ranges, const auto& visit) {
    for (const MemoryRange& one : ranges)
      for (std::int64_t i = 0; i < one.num_bytes; ++i)
        visit(memory[static_cast<std::size_t>(one.begin - origin.data() + i)]);
  };
  for_every_cell(call.reads, [&](std::uint64_t cell) { hash = (hash ^ cell) * 1099511628211U; });
  for_every_cell(call.writes, [&](std::uint64_t& cell) { cell = hash = hash * 6364136223846793005U + 1; });
}

/// Runs the calls of the main queue and those of the branches in a random order that the rules allow.
std::vector<std::uint64_t> run_branched(const std::vector<CallMemory>& calls, const std::vector<BranchedCall>& branched,
                                        std::mt19937& random) {
  std::vector<std::size_t> main, branches;
  for (std::size_t i = 0; i < calls.size(); ++i) (branched[i].is_branch ? branches : main).push_back(i);
  std::vector<std::uint64_t> memory(origin.size(), 7);
  std::size_t next_main = 0, next_branch = 0;
  const unsigned haste = random() % 5;  // of branches: never before they must, to whenever they may
  while (next_main < main.size() || next_branch < branches.size()) {
    const bool has_main = next_main < main.size(), has_branch = next_branch < branches.size();
    const bool may_branch = has_branch && (!has_main || main[next_main] > branches[next_branch]);
    const auto is_over = [&](std::int32_t branch) {
      return !has_branch || branches[next_branch] > static_cast<std::size_t>(branch);
    };
    const bool may_go_on =
        has_main && (branched[main[next_main]].joins < 0 || is_over(branched[main[next_main]].joins));
    REQUIRE((may_branch || may_go_on));
    const bool takes_branch = may_branch && (!may_go_on || random() % 4 < haste);
    const std::size_t number = takes_branch ? branches[next_branch++] : main[next_main++];
    run(calls[number], number, memory);
  }
  return memory;
}

class FusingDevice final : public DescribedDevice {
 public:
  LinearFusions linear_fusions() const override { return {.relu_gradients = true, .gelu = true}; }
};

/// Of the weights' gradients of a steady step, how many branch, and how many there are.
std::pair<int, int> branching_weights(const char* file) {
  const Experiment experiment = load_experiment(source_folder() + "/configs/bench/" + file, {});
  const LoadedData data = load_data(experiment.data, experiment.seed);
  const Program program = compile(experiment, data.description, FusingDevice());
  SimulatedSource source(std::int64_t{1} << 40);
  const std::unique_ptr<Allocator> allocator = make_allocator(program, source, allocator_options(experiment));
  LiveBuffers live(program, *allocator);
  std::vector<CallMemory> memory;
  const auto walk = [&](const Routine& routine) {
    for (const Instruction& instruction : routine.instructions) {
      if (instruction.kind == Instruction::Kind::allocate) live.allocate(instruction.index);
      if (instruction.kind == Instruction::Kind::release) live.release(instruction.index);
      if (instruction.kind != Instruction::Kind::run) continue;
      const OpCall& call = program.calls[static_cast<std::size_t>(instruction.index)];
      std::vector<const void*> operands;
      for (const BufferId input : call.inputs) operands.push_back(live.address(input));
      for (const BufferId output : call.outputs) operands.push_back(live.address(output));
      operands.push_back(call.workspace >= 0 ? live.address(call.workspace) : nullptr);
      memory.push_back(memory_of(call, operands.data(), program));
    }
  };
  walk(program.load);
  for (int step = 0; step < 3; ++step) {
    memory.clear();
    walk(program.micro_batches.front().first);
    walk(program.update);
  }
  const std::vector<BranchedCall> branched = find_branches(memory);
  std::pair<int, int> result{0, 0};
  for (std::size_t i = 0; i < memory.size(); ++i) {
    if (memory[i].branching != Branching::begins) continue;
    result.first += branched[i].is_branch ? 1 : 0;
    ++result.second;
  }
  return result;
}

}  // namespace

TEST_CASE("Branches leave the memory as one queue does, in whatever order two queues run") {
  std::mt19937 random(11);
  std::int64_t num_branches = 0, num_joins = 0;
  for (int round = 0; round < 4000; ++round) {
    std::vector<CallMemory> calls(2 + random() % 30);
    for (CallMemory& call : calls) call = random_call(random);
    const std::vector<BranchedCall> branched = find_branches(calls);
    REQUIRE(branched.size() == calls.size());
    std::vector<std::uint64_t> expected(origin.size(), 7);
    for (std::size_t i = 0; i < calls.size(); ++i) {
      run(calls[i], i, expected);
      num_branches += branched[i].is_branch ? 1 : 0;
      num_joins += branched[i].joins >= 0 ? 1 : 0;
      if (branched[i].is_branch) CHECK(calls[i].branching != Branching::none);
    }
    for (int order = 0; order < 5; ++order) {
      const bool same = run_branched(calls, branched, random) == expected;
      REQUIRE(same);
    }
  }
  CHECK(num_branches > 1000);
  CHECK(num_joins > 1000);
}

TEST_CASE("A call branches where the next one may run beside it, and is joined by the first that may not") {
  const CallMemory weight_gradient{
      .reads = {range(0, 4), range(4, 4)}, .writes = {range(8, 4)}, .branching = Branching::begins};
  const CallMemory reads_the_same{.reads = {range(0, 4), range(12, 2)}, .writes = {range(14, 2)}};
  const CallMemory overwrites_what_it_reads{.reads = {range(14, 2)}, .writes = {range(7, 1)}};
  const CallMemory reads_the_result{.reads = {range(11, 1)}, .writes = {range(20, 1)}};
  const auto joins = [](const std::vector<CallMemory>& calls) {
    std::vector<int> result;
    for (const BranchedCall& call : find_branches(calls)) result.push_back(call.is_branch ? 100 : call.joins);
    return result;
  };
  CHECK(joins({weight_gradient, reads_the_same, overwrites_what_it_reads, reads_the_result}) ==
        std::vector<int>{100, -1, 0, -1});
  CHECK(joins({weight_gradient, reads_the_same, reads_the_result}) == std::vector<int>{100, -1, 0});
  CHECK(joins({weight_gradient, overwrites_what_it_reads, reads_the_same}) == std::vector<int>{-1, -1, -1});
  CHECK(joins({reads_the_same, weight_gradient}) == std::vector<int>{-1, -1});
  CallMemory other_gradient = weight_gradient;
  other_gradient.writes = {range(16, 4)};
  CHECK(joins({weight_gradient, other_gradient, reads_the_same, reads_the_result}) ==
        std::vector<int>{100, 100, -1, 0});
}

TEST_CASE("What works on a weight's gradient branches behind it, and never alone") {
  const CallMemory gradient{.reads = {range(0, 4)}, .writes = {range(8, 4)}, .branching = Branching::begins};
  const CallMemory cast{.reads = {range(8, 4)}, .writes = {range(16, 4)}, .branching = Branching::follows};
  const CallMemory next{.reads = {range(0, 4)}, .writes = {range(12, 2)}, .branching = Branching::none};
  const CallMemory overwrites{.reads = {}, .writes = {range(0, 1)}, .branching = Branching::none};
  const auto branches = [](const std::vector<CallMemory>& calls) {
    std::vector<bool> result;
    for (const BranchedCall& call : find_branches(calls)) result.push_back(call.is_branch);
    return result;
  };
  CHECK(branches({gradient, cast, next}) == std::vector<bool>{true, true, false});
  CHECK(branches({gradient, cast, overwrites, next}) == std::vector<bool>{false, false, false, false});
  CHECK(branches({cast, next}) == std::vector<bool>{false, false});
  CHECK(branches({gradient, next, cast, next}) == std::vector<bool>{true, false, true, false});
}

TEST_CASE("Half of a residual network's weights branch without a byte more, and few of linear layers in a row") {
  const auto [branches, weights] = branching_weights("resnet18.yaml");
  CHECK(weights == 21);
  CHECK(branches >= 8);
  CHECK(branches <= 13);
  const auto [few, linear] = branching_weights("mlp.yaml");
  CHECK(linear == 3);
  CHECK(few <= 1);
}
