#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <utility>

#include "datasets/dataset.h"
#include "tests/ranks/deterministic_cases.h"
#include "tests/ranks/pipeline_cases.h"

// Whole runs of pipelines (Note [Pipelines] in engine/program/pipeline/stage_graph.h), beside one process that takes
// the same micro-batches, and beside their plans.

using namespace trainer;

namespace {

/// A network of as many layers as the longest has stages.
bool is_short(const RankCase& each) { return each.yaml == numbers_model; }

struct Layout {
  int num_ranks = 2, num_stages = 2;
  const char* schedule = "1f1b";
  const char* overlap = "true";
};

std::string name_of(const Layout& layout) {
  return std::to_string(layout.num_ranks) + "_" + std::to_string(layout.num_stages) + layout.schedule + layout.overlap;
}

std::vector<RankRun> run_layout(const RankCase& each, const Layout& layout, const std::string& output,
                                const std::vector<std::string>& more) {
  std::vector<std::string> overrides = with_overrides(each.overrides, more);
  overrides.push_back(std::string("parallel.schedule=") + layout.schedule);
  overrides.push_back(std::string("parallel.overlap=") + layout.overlap);
  return run_ranks(layout.num_ranks, each.yaml, output, overrides, {.num_stages = layout.num_stages});
}

/// Counts the samples that are read.
class CountedDataset : public Dataset {
 public:
  CountedDataset(std::shared_ptr<const Dataset> all, std::atomic<std::int64_t>& num_reads)
      : Dataset(all->input_types(), all->target_type()), all_(std::move(all)), num_reads_(num_reads) {}
  std::int64_t size() const override { return all_->size(); }
  void read(std::int64_t index, std::span<std::byte* const> fields) const override {
    ++num_reads_;
    all_->read(index, fields);
  }
  void read_classes(std::int64_t index, std::int32_t* classes) const override { all_->read_classes(index, classes); }

 private:
  const std::shared_ptr<const Dataset> all_;
  std::atomic<std::int64_t>& num_reads_;
};

}  // namespace

TEST_CASE("stages of a pipeline train as one process that takes the same micro-batches, bit for bit, in their plans") {
  for (const RankCase& each : pipeline_cases()) {
    const OutputFolder folder;
    const RankRun one =
        run_ranks(1, each.yaml, folder.path("one"), with_overrides(each.overrides, {"parallel.micro_batches=3"}))
            .front();
    REQUIRE(one.status == RunStatus::done);
    for (const Layout& layout : {Layout{2, 2, "gpipe", "false"}, Layout{2, 2, "gpipe"}, Layout{2, 2, "1f1b", "false"},
                                 Layout{2, 2}, Layout{2, 2, "zero_bubble", "false"}, Layout{2, 2, "zero_bubble"},
                                 Layout{3, 3, "1f1b", "false"}, Layout{3, 3}, Layout{3, 3, "zero_bubble"},
                                 Layout{2, 2, "interleaved", "false"}, Layout{2, 2, "interleaved"}}) {
      if (is_short(each) && (layout.num_stages > 2 || layout.schedule == std::string("interleaved"))) continue;
      INFO(each.name << ", " << name_of(layout));
      const std::vector<RankRun> ranks =
          run_layout(each, layout, folder.path(name_of(layout)), {"parallel.micro_batches=3"});
      // Stages add up the gradients of weights that they share behind all micro-batches, one process within each.
      if (each.yaml == tied_model || each.yaml == recurring_model) {
        check_against_one(ranks, one, each.tolerance);
        continue;
      }
      check_same_bits(ranks, one);
      for (const char* file : {"model.safetensors", "optimizer.safetensors"})
        CHECK(same_file(folder, "one", name_of(layout), static_cast<int>(one.steps.size()), file));
    }
  }
}

TEST_CASE("pipelines of whole batches train as one process does, also where a rank has no sample, in their plans") {
  // Wide enough that what it makes waits on the host, with a norm that layers of two stages may read.
  constexpr const char* wide_model = R"(
name: wide
seed: 4
data: {type: synthetic, shape: [8, 8, 2], classes: 3, samples: 21}
model:
  layers:
    - conv2d: {out: 64, kernel: 3, padding: 1}
    - groupnorm: {groups: 2, name: norm}
    - conv2d: {out: 64, kernel: 3, padding: 1}
    - relu: {name: middle}
    - concat: {from: [norm, middle]}
    - conv2d: {out: 64, kernel: 3, padding: 1}
    - relu
    - global_avgpool
    - linear: {out: 3}
optimizer: {type: sgd, lr: 0.05}
train: {batch_size: 10, steps: 6}
)";
  for (const RankCase& each :
       {RankCase{"tied", tied_model}, RankCase{"a last batch of one sample", without_norms, {"data.samples=37"}},
        RankCase{"waits on the host", wide_model, {"memory.offload=['*']"}},
        RankCase{"computed again", wide_model, {"train.checkpointing={budget: 2MB}"}}}) {
    const OutputFolder folder;
    const RankRun one = run_ranks(1, each.yaml, folder.path("one"), each.overrides).front();
    REQUIRE(one.status == RunStatus::done);
    for (const Layout& layout : {Layout{2, 2, "interleaved"}, Layout{4, 2, "interleaved"}, Layout{4, 2}}) {
      INFO(each.name << ", " << name_of(layout));
      check_against_one(run_layout(each, layout, folder.path(name_of(layout)), {"parallel.micro_batches=1"}), one,
                        each.tolerance);
    }
  }
}

TEST_CASE("the inner stages of a pipeline read no data to evaluate") {
  const OutputFolder folder;
  const RankRun one = run_ranks(1, without_norms, folder.path("one"), {"parallel.micro_batches=3"}).front();
  std::array<std::atomic<std::int64_t>, 3> num_reads = {};
  const std::vector<RankRun> ranks = run_ranks(3, without_norms, folder.path("ranks"), {"parallel.micro_batches=3"},
                                               {.num_stages = 3, .change_data = [&](LoadedData& data, int rank) {
                                                  data.validation = std::make_shared<CountedDataset>(
                                                      data.validation, num_reads[static_cast<std::size_t>(rank)]);
                                                }});
  check_same_bits(ranks, one);
  REQUIRE(one.evaluations.size() == 3);
  CHECK(num_reads[0] == 3 * 13);
  CHECK(num_reads[1] == 0);
  CHECK(num_reads[2] == 3 * 13);
}

TEST_CASE("stages of several chunks evaluate what passes over some of them, however much it is") {
  // More than what a connection takes before it is read: a stage that sent what nobody reads yet would wait for ever.
  constexpr const char* model = R"(
name: passing
seed: 4
data: {type: synthetic, shape: [32, 32, 3], classes: 3, samples: 4, validation_samples: 64}
model:
  layers:
    - conv2d: {out: 64, kernel: 1, name: passing}
    - relu
    - conv2d: {out: 64, kernel: 1, name: second}
    - relu
    - conv2d: {out: 64, kernel: 1, name: third}
    - relu: {name: before}
    - concat: {from: [passing, before], name: fourth}
    - global_avgpool
    - linear: {out: 3}
optimizer: {type: sgd, lr: 0.05}
train: {batch_size: 2, steps: 1, eval_every: 1, eval_batch_size: 64}
parallel: {micro_batches: 1}
)";
  const RankCase each{"passing", model};
  const OutputFolder folder;
  const RankRun one = run_ranks(1, model, folder.path("one"), {}).front();
  REQUIRE(one.evaluations.size() == 1);
  check_against_one(
      run_layout(each, {2, 2, "interleaved"}, folder.path("two"), {"parallel.cut=[second, third, fourth]"}), one,
      each.tolerance);
}

TEST_CASE("pipelines of ranks that share a batch train as one process does, to rounding, in their plans") {
  for (const RankCase& each : pipeline_cases()) {
    const OutputFolder folder;
    const RankRun one =
        run_ranks(1, each.yaml, folder.path("one"), with_overrides(each.overrides, {"parallel.micro_batches=4"}))
            .front();
    REQUIRE(one.status == RunStatus::done);
    const bool has_norms = each.yaml == skips_model;  // which go by a micro-batch, and other ones
    for (const char* shard : all_shards) {
      INFO(each.name << ", shard " << shard);
      const bool is_cut = shard == std::string("gradients") || shard == std::string("parameters");
      std::vector<RankRun> ranks;
      try {
        ranks = run_layout(each, {4, 2}, folder.path(shard),
                           {std::string("parallel.shard=") + shard, "parallel.micro_batches=2",
                            is_cut ? "data.drop_last=true" : "data.drop_last=false"});
      } catch (const ConfigError& error) {
        CHECK(is_cut);
        CHECK(std::string(error.what()) == "");
        continue;
      }
      if (has_norms || is_cut)
        for (const RankRun& run : ranks) CHECK(run.mistake == "");
      else
        check_against_one(ranks, one, each.tolerance);
    }
  }
}
