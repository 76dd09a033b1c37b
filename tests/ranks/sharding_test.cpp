#include "engine/program/sharding.h"

#include <map>

#include "engine/cpu/cpu_device.h"
#include "engine/program/compile.h"
#include "engine/program/routine_walk.h"
#include "tests/whole_runs/training_fixture.h"

// What ranks that share a model hold of it, by their programs.

using namespace trainer;

namespace {

constexpr const char* deep_model = R"(
name: deep
data: {type: synthetic, shape: [200], classes: 10, samples: 64, validation_samples: 16}
model:
  layers:
    - {linear: {out: 700}}
    - relu
    - {linear: {out: 900}}
    - relu
    - {linear: {out: 800}}
    - relu
    - {linear: {out: 900}}
    - relu
    - {linear: {out: 700}}
    - relu
    - {linear: {out: 10}}
optimizer: {type: adam, lr: 0.001}
train: {batch_size: 16, steps: 8, eval_every: 4}
)";

Program program_of(std::int64_t num_ranks, std::int64_t rank, const std::string& shard,
                   std::vector<std::string> overrides = {}) {
  overrides.push_back("parallel.data=" + std::to_string(num_ranks));
  overrides.push_back("parallel.shard=" + shard);
  const OutputFolder folder;
  TestRun run(deep_model, folder.path("run"), overrides);
  run.experiment.parallel.rank = rank;
  return compile(run.experiment, run.data.description, *make_cpu_device(1));
}

/// Bytes of weights and state, and of the gradients that an update reads.
struct ModelBytes {
  std::int64_t weights = 0, state = 0, gradients = 0, gathered_at_once = 0;
};

ModelBytes bytes_of(const Program& program) {
  ModelBytes bytes;
  for_each_change(program.load, [&](BufferId buffer, bool) {
    const Buffer& held = program.buffers[buffer];
    if (held.category == Category::parameter) bytes.weights += held.num_bytes;
    if (held.category == Category::optimizer_state) bytes.state += held.num_bytes;
  });
  for_each_change(program.update, [&](BufferId buffer, bool is_allocated) {
    const Buffer& held = program.buffers[buffer];
    if (held.category == Category::gradient && !is_allocated) bytes.gradients += held.num_bytes;
  });
  std::int64_t gathered = 0;
  for_each_change(program.micro_batches.front().first, [&](BufferId buffer, bool is_allocated) {
    const Buffer& held = program.buffers[buffer];
    if (held.name.ends_with(".gathered")) gathered += is_allocated ? held.num_bytes : -held.num_bytes;
    bytes.gathered_at_once = std::max(bytes.gathered_at_once, gathered);
  });
  CHECK(gathered == 0);
  return bytes;
}

}  // namespace

TEST_CASE("ranks that share a model hold a part of it each, and gather two layers at a time at most") {
  const std::vector<std::int64_t> widths = {200, 700, 900, 800, 900, 700, 10};
  std::int64_t count = 0, largest = 0;
  for (std::size_t i = 1; i < widths.size(); ++i) {
    const std::int64_t layer = widths[i] * widths[i - 1] + widths[i];
    count += layer;
    largest = std::max(largest, layer);
  }
  for (const std::int64_t num_ranks : {2, 4, 8}) {
    std::map<std::string, ModelBytes> all;
    for (const std::string shard : {"none", "optimizer", "gradients", "parameters"}) {
      ModelBytes sum;
      for (std::int64_t rank = 0; rank < num_ranks; ++rank) {
        const ModelBytes bytes = bytes_of(program_of(num_ranks, rank, shard));
        if (rank == 0) all[shard] = bytes;
        sum.weights += bytes.weights;
        sum.state += bytes.state;
        sum.gradients += bytes.gradients;
      }
      INFO(num_ranks << " ranks, " << shard);
      const std::int64_t whole = 4 * count;
      CHECK(sum.weights == (shard == "parameters" ? 1 : num_ranks) * whole);
      CHECK(sum.state == (shard == "none" ? num_ranks : 1) * 2 * whole);
      CHECK(sum.gradients == (shard == "gradients" || shard == "parameters" ? 1 : num_ranks) * whole);
    }
    const ModelBytes& shared = all["parameters"];
    CHECK(static_cast<double>(shared.weights + shared.state + shared.gradients) <=
          1.02 * 16 * static_cast<double>(count) / static_cast<double>(num_ranks));
    CHECK(shared.gathered_at_once > 0);
    CHECK(shared.gathered_at_once <= 2 * 4 * largest);
  }
}

TEST_CASE("under mixed precision masters are cut with the state, and copies with the weights") {
  const std::vector<std::string> mixed = {"train.amp=bf16"};
  const auto masters_and_copies = [&](const std::string& shard) {
    std::pair<std::int64_t, std::int64_t> bytes;
    const Program program = program_of(4, 0, shard, mixed);
    for (std::size_t p = 0; p < program.parameters.size(); ++p) {
      if (program.copy_buffers[p] < 0) continue;
      bytes.first += program.buffers[program.parameter_buffers[p]].num_bytes;
      bytes.second += program.buffers[program.copy_buffers[p]].num_bytes;
    }
    return bytes;
  };
  const auto [masters, copies] = masters_and_copies("none");
  CHECK(masters == 2 * copies);
  const auto quarter = [](std::int64_t part, std::int64_t whole) {
    return part >= whole / 4 && static_cast<double>(part) < 0.26 * static_cast<double>(whole);
  };
  for (const char* shard : {"optimizer", "gradients", "parameters"}) {
    INFO(shard);
    const auto [own_masters, own_copies] = masters_and_copies(shard);
    CHECK(quarter(own_masters, masters));
    if (shard == std::string("parameters"))
      CHECK(quarter(own_copies, copies));
    else
      CHECK(own_copies == copies);
  }
}
