#include <set>

#include "engine/plan/step_routines.h"
#include "engine/program/routine_walk.h"
#include "tests/ranks/rank_runs.h"
#include "tests/techniques/generated_experiments.h"

// Exchanges that are started and run beside what follows (Note [Started exchanges] in engine/ops/finish_exchange.h).

using namespace trainer;

namespace {

using Kind = Instruction::Kind;

/// What a routine does while exchanges are on their way.
struct StartedWalk {
  int num_started = 0;
  int num_beside = 0;  ///< calls that compute between a start and its finish
  std::string mistake;
};

/// An obvious reading of the note, buffer by buffer.
void walk_started(const Program& program, const Routine& routine, StartedWalk& walk) {
  std::vector<std::set<BufferId>> on_their_way;
  const auto is_busy = [&](BufferId buffer) {
    for (const std::set<BufferId>& used : on_their_way)
      for (const BufferId each : used)
        if (each == buffer || program.buffers[each].view_of == buffer || program.buffers[buffer].view_of == each)
          return true;
    return false;
  };
  const auto require_idle = [&](BufferId buffer, const char* what) {
    if (is_busy(buffer)) walk.mistake += routine.name + ": " + what + " " + program.buffers[buffer].name + "; ";
  };
  for (const Instruction& instruction : routine.instructions) {
    if (instruction.kind == Kind::release) require_idle(instruction.index, "releases");
    if (instruction.kind != Kind::run) continue;
    const OpCall& call = program.calls[instruction.index];
    if (call.op.kind == OpKind::finish_exchange) {
      std::size_t count = 0;
      for (std::size_t i = 0; i < on_their_way.size(); ++i)
        for (const BufferId input : call.inputs)
          if (on_their_way[i].count(input) > 0) count = i + 1;
      if (count == 0) walk.mistake += routine.name + ": nothing to finish; ";
      std::set<BufferId> finished;
      for (; count > 0; on_their_way.erase(on_their_way.begin()), --count)
        finished.insert(on_their_way.front().begin(), on_their_way.front().end());
      for (const BufferId input : call.inputs)
        if (finished.count(input) == 0) walk.mistake += routine.name + ": names what it does not finish; ";
      continue;
    }
    std::set<BufferId> used(call.inputs.begin(), call.inputs.end());
    used.insert(call.outputs.begin(), call.outputs.end());
    if (call.workspace >= 0) used.insert(call.workspace);
    for (const BufferId buffer : used)
      if (!is_started(call.op) || buffer != call.workspace) require_idle(buffer, "uses");
    if (!is_exchange(call.op) && !on_their_way.empty()) ++walk.num_beside;
    if (is_started(call.op)) {
      ++walk.num_started;
      on_their_way.push_back(std::move(used));
    }
  }
  if (!on_their_way.empty()) walk.mistake += routine.name + ": not finished; ";
}

StartedWalk walk_program(const Program& program) {
  StartedWalk walk;
  for (const Program::MicroBatch& micro_batch : program.micro_batches) {
    walk_started(program, micro_batch.first, walk);
    walk_started(program, micro_batch.next, walk);
    for (const Routine& routine : micro_batch.others) walk_started(program, routine, walk);
  }
  for (const Routine& routine : program.evaluations) walk_started(program, routine, walk);
  walk_started(program, program.update, walk);
  return walk;
}

StartedWalk walk_of(const std::string& yaml, const std::vector<std::string>& overrides) {
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const Experiment experiment = parse_experiment(yaml, "test.yaml", overrides);
  return walk_program(compile(experiment, describe_data(experiment.data, experiment.seed), *device));
}

std::vector<RankCase> overlap_cases() {
  std::vector<RankCase> cases = rank_cases();
  for (RankCase& each : norm_cases()) {
    each.overrides.emplace_back("parallel.sync_batchnorm=true");
    cases.push_back(std::move(each));
  }
  cases.push_back({"batch norms of each rank", norms_model});
  cases.push_back({"parts", without_norms, {"parallel.deterministic=true", "parallel.parts=4"}});
  return cases;
}

std::vector<std::string> with(std::vector<std::string> overrides, std::initializer_list<std::string> more) {
  overrides.insert(overrides.end(), more);
  return overrides;
}

}  // namespace

TEST_CASE("runs whose sums overlap have the bits of those that wait for each, and each rank holds what its plan says") {
  for (const RankCase& each : overlap_cases()) {
    const OutputFolder folder;
    for (const char* shard : all_shards) {
      const bool keeps_wholes = std::string(shard) == "none" || std::string(shard) == "optimizer";
      for (const int num_ranks : {each.yaml == text_model ? 4 : keeps_wholes && each.name != "parts" ? 3 : 2}) {
        INFO(each.name << ", " << num_ranks << " ranks, " << shard);
        const std::vector<std::string> overrides = with(each.overrides, {std::string("parallel.shard=") + shard});
        const std::string name = shard;
        const std::vector<RankRun> waiting =
            run_ranks(num_ranks, each.yaml, folder.path(name + "0"), with(overrides, {"parallel.overlap=false"}));
        const std::vector<RankRun> overlapping =
            run_ranks(num_ranks, each.yaml, folder.path(name + "1"),
                      with(overrides, {"parallel.bucket_size=1", "parallel.prefetch=3"}));
        for (std::size_t rank = 0; rank < waiting.size(); ++rank) {
          CHECK(waiting[rank].mistake == "");
          CHECK(overlapping[rank].mistake == "");
          REQUIRE(overlapping[rank].steps.size() == waiting[rank].steps.size());
          for (std::size_t i = 0; i < waiting[rank].steps.size(); ++i)
            CHECK(overlapping[rank].steps[i].loss == waiting[rank].steps[i].loss);
        }
        const auto last = static_cast<int>(waiting[0].steps.back().step);
        for (const char* file : {"model.safetensors", "optimizer.safetensors"})
          CHECK(same_file(folder, name + "0", name + "1", last, file));
      }
    }
  }
}

TEST_CASE("what an exchange uses is left alone from its start to its finish") {
  int num_started = 0, num_beside = 0, num_farther = 0;
  for (const RankCase& each : overlap_cases()) {
    for (const char* shard : all_shards) {
      for (const char* bucket : {"1", "300", "0"}) {
        for (const int num_ranks : {2, 3}) {
          if (each.name == "parts" && num_ranks == 3) continue;
          const std::vector<std::string> overrides = with(
              each.overrides, {std::string("parallel.shard=") + shard, std::string("parallel.bucket_size=") + bucket,
                               "parallel.data=" + std::to_string(num_ranks)});
          INFO(each.name << ", " << shard << ", buckets of " << bucket << ", " << num_ranks << " ranks");
          const StartedWalk walk = walk_of(each.yaml, with(overrides, {"parallel.prefetch=1"}));
          const StartedWalk farther = walk_of(each.yaml, with(overrides, {"parallel.prefetch=3"}));
          CHECK(farther.mistake == "");
          CHECK((std::string(shard) == "parameters" || farther.num_beside == walk.num_beside));
          num_farther += farther.num_beside - walk.num_beside;
          CHECK(walk.mistake == "");
          num_started += walk.num_started;
          num_beside += walk.num_beside;
          CHECK(walk_of(each.yaml, with(overrides, {"parallel.overlap=false"})).num_started == 0);
        }
      }
    }
  }
  CHECK(num_started > 1000);
  CHECK(num_beside > 1000);
  CHECK(num_farther > 0);
}

TEST_CASE(
    "gradients that stay are added up beside the backward pass, but for the last bucket, unless they accumulate") {
  const auto num_started = [](const std::vector<std::string>& more) {
    std::vector<std::string> overrides = {"parallel.data=2", "parallel.bucket_size=1", "data.samples=45"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    return walk_of(without_norms, overrides).num_started;
  };
  // Four gradients, of routines for 5 and 4 samples; accumulated ones are added up once.
  for (const char* shard : {"parallel.shard=none", "parallel.shard=optimizer"}) {
    CHECK(num_started({shard, "data.samples=36"}) == 3);
    CHECK(num_started({shard, "data.samples=36", "parallel.bucket_size=0"}) == 0);
    CHECK(num_started({shard, "data.samples=36", "train.accumulation_steps=2"}) == 0);
  }
  CHECK(num_started({"parallel.shard=gradients", "data.samples=36"}) == 3);
}
