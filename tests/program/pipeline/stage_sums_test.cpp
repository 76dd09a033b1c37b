#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/config/load_experiment.h"
#include "engine/ops/op_definition.h"
#include "engine/program/compile.h"
#include "engine/program/routine_walk.h"
#include "tests/device/described_device.h"

// Gradients of weights that several stages of a pipeline use, which the update routine adds up.

using namespace trainer;

namespace {

constexpr std::int64_t stages_of_four = 4;

/// `where`: stages whose layer uses the weights of the first one's.
Program program_of(std::int64_t rank, const std::set<std::int64_t>& where) {
  std::string layers = "{linear: {out: 6, name: stage0}}";
  for (std::int64_t stage = 1; stage < stages_of_four; ++stage)
    layers += ", {linear: {out: 6, name: stage" + std::to_string(stage) +
              (where.contains(stage) ? ", share: stage0" : "") + "}}";
  Experiment experiment = parse_experiment(
      "data: {type: synthetic, shape: [6], classes: 6, samples: 64}\nmodel: {layers: [" + layers +
          "]}\nparallel: {pipeline: 4, micro_batches: 4, cut: [stage1, stage2, stage3]}\ntrain: {batch_size: 8}\n",
      "test.yaml");
  experiment.parallel.rank = rank;
  return compile(experiment, described_data({6}, 6, 64), DescribedDevice());
}

/// What a rank does with its gradient of the shared weight: it adds up with another, or gives nothing any more.
struct Step {
  std::int64_t first = -1, second = -1;
  bool is_sum() const { return first >= 0; }
};

std::vector<Step> steps_of(std::int64_t rank, const std::set<std::int64_t>& where) {
  const Program program = program_of(rank, where);
  const std::int64_t bytes_of_weight = 6 * 6 * 4;
  std::vector<Step> steps;
  for_each_call(program, program.update, [&](const OpCall& call) {
    if (call.op.inputs.empty() || call.op.inputs[0].num_bytes() != bytes_of_weight) return;
    if (call.op.kind == OpKind::fill_zero) steps.push_back({});
    if (call.op.kind != OpKind::all_reduce) return;
    const RankGroup& ranks = ranks_of(call.op);
    REQUIRE(ranks.count == 2);
    steps.push_back({ranks.first, ranks.last()});
  });
  return steps;
}

}  // namespace

TEST_CASE("whichever stages use a weight, all of them end with the sum of their gradients, and none waits for ever") {
  for (const std::set<std::int64_t>& where : {std::set<std::int64_t>{1}, {3}, {1, 2}, {1, 3}, {2, 3}, {1, 2, 3}}) {
    std::vector<std::vector<Step>> steps;
    std::vector<std::int64_t> gradients;  // a bit of each stage that has a part
    std::int64_t all = 0;
    for (std::int64_t rank = 0; rank < stages_of_four; ++rank) {
      const bool uses = rank == 0 || where.contains(rank);
      steps.push_back(steps_of(rank, where));
      CHECK(steps.back().empty() != uses);
      gradients.push_back(uses ? std::int64_t{1} << (8 * rank) : 0);
      all += gradients.back();
    }
    // Each goes on as far as it comes: a sum begins when both have come to it.
    std::vector<std::size_t> next(stages_of_four, 0);
    for (bool moves = true; moves;) {
      moves = false;
      for (std::size_t rank = 0; rank < stages_of_four; ++rank) {
        if (next[rank] == steps[rank].size()) continue;
        const Step& step = steps[rank][next[rank]];
        if (!step.is_sum()) {
          gradients[rank] = 0;
          ++next[rank];
          moves = true;
          continue;
        }
        REQUIRE((step.first == static_cast<std::int64_t>(rank) || step.second == static_cast<std::int64_t>(rank)));
        const auto other = static_cast<std::size_t>(step.first + step.second) - rank;
        if (next[other] == steps[other].size()) continue;
        const Step& of_other = steps[other][next[other]];
        if (of_other.first != step.first || of_other.second != step.second) continue;
        gradients[rank] = gradients[other] = gradients[rank] + gradients[other];
        ++next[rank];
        ++next[other];
        moves = true;
      }
    }
    for (std::size_t rank = 0; rank < stages_of_four; ++rank) {
      CHECK(next[rank] == steps[rank].size());
      const bool uses = rank == 0 || where.contains(static_cast<std::int64_t>(rank));
      CHECK(gradients[rank] == (uses ? all : 0));
    }
  }
}
