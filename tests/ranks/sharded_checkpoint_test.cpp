#include "engine/train/files/sharded_checkpoint.h"

#include <fmt/format.h>

#include <zlib.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/plan/make_allocator.h"
#include "engine/plan/process_memory.h"
#include "engine/train/files/durable_file.h"
#include "engine/train/files/intact_weights.h"
#include "engine/train/files/run_directory.h"
#include "engine/train/files/shared_folder.h"
#include "engine/train/files/tensor_shards.h"
#include "engine/train/fresh_state.h"
#include "tests/ranks/rank_runs.h"
#include "tests/ranks/saved_checkpoints.h"

// Checkpoints that ranks write together, beside those that rank 0 writes.

using namespace trainer;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

constexpr const char* every_shard[] = {"none", "optimizer", "gradients", "parameters"};

std::string checkpoint_of(const OutputFolder& folder, const std::string& run, int step) {
  return RunDirectory(folder.path(run)).checkpoint_path(step);
}

std::set<std::string> names_in(const std::string& path) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(path)) names.insert(entry.path().filename().string());
  return names;
}

std::vector<std::string> and_more(std::vector<std::string> overrides, const std::vector<std::string>& more) {
  overrides.insert(overrides.end(), more.begin(), more.end());
  return overrides;
}

/// The program of a rank, loaded as the seed has it.
struct LoadedRank {
  Experiment experiment;
  std::unique_ptr<Device> device = make_cpu_device(1);
  Program program;
  std::unique_ptr<MemorySource> source;
  std::unique_ptr<Allocator> allocator;
  std::optional<Executor> executor;

  LoadedRank(const std::string& yaml, std::vector<std::string> overrides, Communicator& ranks) {
    overrides.push_back("parallel.data=" + std::to_string(ranks.size()));
    experiment = parse_experiment(yaml, "test.yaml", overrides);
    experiment.parallel.rank = ranks.rank();
    device->set_communicator(ranks);
    program = compile(experiment, describe_data(experiment.data, experiment.seed), *device);
    source = device->make_memory_source(std::int64_t{1} << 30);
    allocator = make_allocator(program, *source, allocator_options(experiment));
    executor.emplace(program, *device, *allocator);
    load_fresh_state(*executor, experiment);
  }
  ~LoadedRank() { executor->release_all(); }
  LoadedRank(const LoadedRank&) = delete;
  LoadedRank& operator=(const LoadedRank&) = delete;

  SavedCheckpoint save(const std::string& directory, Communicator& ranks) {
    PieceMemory own(largest_saved_piece(program)), given(largest_saved_piece(program));
    return save_sharded_checkpoint(directory, {}, experiment, "test", *executor, ranks, {own, &given});
  }
};

/// Says anew in state.json what a file of a checkpoint is, as one who damages it on purpose would.
void describe_anew(const std::string& checkpoint, const std::string& name) {
  const auto checksum = [](const std::string& text) {
    return fmt::format("{:08x}", crc32_z(0, reinterpret_cast<const unsigned char*>(text.data()), text.size()));
  };
  nlohmann::json state = nlohmann::json::parse(file_bytes(checkpoint + "/state.json"));
  const std::string bytes = file_bytes(checkpoint + "/" + name);
  state["files"][name] = {{"bytes", bytes.size()}, {"crc32", checksum(bytes)}};
  state.erase("crc32");
  state["crc32"] = checksum(state.dump());
  write_bytes(checkpoint + "/state.json", state.dump());
}

std::string refusal_to(const std::function<void()>& work) {
  try {
    work();
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("what ranks write together holds what rank 0 would write, each tensor whole in one file") {
  std::vector<RankCase> cases = rank_cases();
  std::erase_if(cases, [](const RankCase& each) {
    return each.name == "planned places" || each.name == "class weights" || each.name == "accumulation";
  });
  cases.push_back({"numbers without a state", numbers_model, {"optimizer.momentum=0"}});
  for (const RankCase& each : cases) {
    for (const int num_ranks : {2, 3, 4}) {
      for (const char* shard : every_shard) {
        INFO(each.name << ", " << num_ranks << " ranks, " << shard);
        const OutputFolder folder;
        const std::vector<std::string> overrides =
            and_more(each.overrides, {std::string("parallel.shard=") + shard, "checkpoint.every=4"});
        const std::vector<RankRun> whole = run_ranks(num_ranks, each.yaml, folder.path("whole"), overrides);
        const std::vector<RankRun> sharded =
            run_ranks(num_ranks, each.yaml, folder.path("sharded"), and_more(overrides, {"checkpoint.sharded=true"}));
        for (const RankRun& run : sharded) CHECK(run.status == RunStatus::done);
        const RunDirectory directory(folder.path("sharded"));
        CHECK(directory.checkpoint_steps() == RunDirectory(folder.path("whole")).checkpoint_steps());
        CHECK(names_in(directory.checkpoints_path()) == names_in(folder.path("whole/checkpoints")));
        for (const std::int64_t step : directory.checkpoint_steps()) {
          const std::string checkpoint = directory.checkpoint_path(step);
          CHECK(same_tensors(checkpoint, checkpoint_of(folder, "whole", static_cast<int>(step))));
          std::set<std::string> expected = {"state.json"};
          for (const char* stem : {"model", "optimizer"}) {
            const int count = std::min(num_ranks, std::max(1, static_cast<int>(saved_in(checkpoint, stem).size())));
            for (int file = 0; file < count; ++file) expected.insert(shard_file(stem, file, count));
            if (count > 1) expected.insert(shards_index_file(stem));
          }
          CHECK(names_in(checkpoint) == expected);
        }
      }
    }
  }
}

TEST_CASE("a run goes on from a sharded checkpoint as from a whole one, with any number of ranks, and writes either") {
  struct Change {
    int from, to;
    const char *from_shard, *to_shard;
  };
  for (const Change& change :
       {Change{2, 2, "none", "parameters"}, Change{3, 1, "parameters", "none"}, Change{1, 3, "none", "optimizer"},
        Change{2, 4, "gradients", "gradients"}, Change{4, 3, "optimizer", "none"}}) {
    INFO(change.from << " to " << change.to << " ranks");
    const OutputFolder folder;
    const std::vector<std::string> shared = {"average=ema", "average.decay=0.9", "memory.moments=8bit",
                                             "checkpoint.keep=9"};
    const auto begin = [&](const std::string& run, const std::string& sharded) {
      const std::vector<RankRun> begun = run_ranks(
          change.from, without_norms, folder.path(run),
          and_more(shared, {std::string("parallel.shard=") + change.from_shard, "checkpoint.sharded=" + sharded}),
          {.interrupt_after = 6});
      for (const RankRun& each : begun) CHECK(each.status == RunStatus::interrupted);
    };
    const auto go_on = [&](const std::string& run, const std::string& sharded) {
      const std::vector<RankRun> resumed = run_ranks(
          change.to, without_norms, folder.path(run),
          and_more(shared, {std::string("parallel.shard=") + change.to_shard, "checkpoint.sharded=" + sharded}),
          {.resume = true});
      for (const RankRun& each : resumed) CHECK(each.status == RunStatus::done);
    };
    begin("from sharded", "true");
    begin("from whole", "false");
    CHECK(fs::exists(checkpoint_of(folder, "from sharded", 6) + "/model.safetensors.index.json") == (change.from > 1));
    go_on("from sharded", "false");
    go_on("from whole", "true");
    CHECK(fs::exists(checkpoint_of(folder, "from whole", 12) + "/model.safetensors.index.json") == (change.to > 1));
    CHECK(same_tensors(checkpoint_of(folder, "from sharded", 12), checkpoint_of(folder, "from whole", 12)));
  }
}

TEST_CASE("ranks that resume a run that has ended end with it, whoever writes, and leave it as it is") {
  for (const char* shard : every_shard) {
    for (const char* sharded : {"true", "false"}) {
      INFO(shard << ", sharded: " << sharded);
      const OutputFolder folder;
      const std::vector<std::string> overrides = {std::string("parallel.shard=") + shard,
                                                  std::string("checkpoint.sharded=") + sharded};
      run_ranks(3, without_norms, folder.path("run"), overrides);
      const auto written = fs::last_write_time(checkpoint_of(folder, "run", 12));
      for (const RankRun& run : run_ranks(3, without_norms, folder.path("run"), overrides, {.resume = true})) {
        CHECK(run.status == RunStatus::done);
        CHECK(run.steps.empty());
      }
      CHECK(fs::last_write_time(checkpoint_of(folder, "run", 12)) == written);
    }
  }
}

TEST_CASE("whoever names a run's or a checkpoint's folder finds the model in its shards") {
  const OutputFolder folder;
  run_ranks(2, without_norms, folder.path("run"), {"checkpoint.sharded=true"});
  run_ranks(1, without_norms, folder.path("taken"),
            {"weights.file=" + folder.path("run/checkpoints/latest"), "train.steps=0"});
  const auto taken = saved_in(checkpoint_of(folder, "taken", 0), "model");
  CHECK(taken == saved_in(checkpoint_of(folder, "run", 12), "model"));
  const Checkpoint checkpoint = read_checkpoint(checkpoint_of(folder, "run", 12));
  CHECK(checkpoint.model == checkpoint.path + "/model.safetensors.index.json");
  CHECK(checkpoint.optimizer == checkpoint.path + "/optimizer.safetensors.index.json");
}

TEST_CASE("shards that are missing, damaged, doubled or not those of the index are refused with their place") {
  const OutputFolder folder;
  const std::vector<std::string> overrides = {"checkpoint.every=4", "checkpoint.sharded=true", "train.steps=8",
                                              "train.eval_every=100"};
  run_ranks(2, without_norms, folder.path("sound"), overrides);
  struct Case {
    const char* name;
    std::function<void(const std::string& checkpoint)> damage;
    std::vector<std::string> reasons;
  };
  const std::string first = "/model-00001-of-00002.safetensors", second = "/model-00002-of-00002.safetensors";
  const std::string index = "/model.safetensors.index.json";
  const auto rewrite = [](const std::string& path, const std::string& from, const std::string& to) {
    std::string text = file_bytes(path);
    REQUIRE(text.find(from) != std::string::npos);
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
    write_bytes(path, text);
  };
  const std::vector<Case> cases = {
      {"a missing shard",
       [&](const std::string& path) { fs::remove(path + second); },
       {"model-00002-of-00002.safetensors is missing"}},
      {"a shard cut short",
       [&](const std::string& path) { fs::resize_file(path + second, 300); },
       {"model-00002-of-00002.safetensors has 300 bytes where"}},
      {"a shard cut short, and said so",
       [&](const std::string& path) {
         fs::resize_file(path + second, fs::file_size(path + second) - 4);
         describe_anew(path, second.substr(1));
       },
       {second}},
      {"a byte changed",
       [&](const std::string& path) {
         std::string bytes = file_bytes(path + first);
         bytes.back() = static_cast<char>(bytes.back() ^ 1);
         write_bytes(path + first, bytes);
       },
       {"the contents of model-00001-of-00002.safetensors have changed"}},
      {"no index",
       [&](const std::string& path) { fs::remove(path + index); },
       {"model.safetensors.index.json is missing"}},
      {"an index of other files",
       [&](const std::string& path) { rewrite(path + index, "00002-of-00002", "00003-of-00003"); },
       {"the contents of model.safetensors.index.json have changed"}},
      {"an index of a file that is not there, and said so",
       [&](const std::string& path) {
         rewrite(path + index, "00002-of-00002", "00003-of-00003");
         describe_anew(path, index.substr(1));
       },
       {"state.json", "model-00003-of-00003.safetensors"}},
      {"an index of a file elsewhere, and said so",
       [&](const std::string& path) {
         rewrite(path + index, "model-00002-of-00002", "../model");
         describe_anew(path, index.substr(1));
       },
       {index, "'../model.safetensors'", "is not the name of a file beside the index"}},
      {"a tensor in two files, and said so",
       [&](const std::string& path) {
         fs::copy_file(path + first, path + second, fs::copy_options::overwrite_existing);
         describe_anew(path, second.substr(1));
       },
       {index + " does not say where these tensors are", "of model-00002-of-00002.safetensors"}},
      {"an index that gives a tensor to another file, and said so",
       [&](const std::string& path) {
         rewrite(path + index, "00001-of-00002", "00002-of-00002");
         describe_anew(path, index.substr(1));
       },
       {index + " names tensors that are not where it says"}},
      {"a whole model beside them",
       [&](const std::string& path) { write_bytes(path + "/model.safetensors", "x"); },
       {"model.safetensors is not of it: its tensors are in shards"}},
      {"no format that is known",
       [&](const std::string& path) { rewrite(path + "/state.json", "version\": 2", "version\": 3"); },
       {"its format has version 3, this trainer reads versions 1 and 2"}},
  };
  for (const Case& each : cases) {
    INFO(each.name);
    const std::string run = folder.path(each.name);
    fs::copy(folder.path("sound"), run, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    CHECK_NOTHROW(intact_weights(run));
    each.damage(RunDirectory(run).checkpoint_path(8));
    CHECK_THROWS_AS(intact_weights(run), DataError);
    for (const int num_ranks : {1, 2}) {
      const std::string message =
          refusal_to([&] { run_ranks(num_ranks, without_norms, run, overrides, {.resume = true}); });
      CHECK(message.find(RunDirectory(run).checkpoint_path(8)) != std::string::npos);
      for (const std::string& reason : each.reasons) CHECK_THAT(message, Contains(reason));
    }
  }
}

TEST_CASE("ranks that share reading a damaged checkpoint all pass over it where they may") {
  const OutputFolder folder;
  const std::vector<std::string> overrides = {"checkpoint.every=4", "checkpoint.sharded=true", "train.steps=8",
                                              "train.eval_every=100"};
  run_ranks(3, without_norms, folder.path("run"), overrides);
  const std::string damaged = checkpoint_of(folder, "run", 8);
  for (const auto& entry : fs::directory_iterator(damaged)) {
    const std::string name = entry.path().filename().string();
    if (name == "state.json") continue;
    INFO(name);
    const OutputFolder other;
    fs::copy(folder.path("run"), other.path("run"), fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    fs::resize_file(checkpoint_of(other, "run", 8) + "/" + name, 100);
    CHECK_THAT(refusal_to([&] { run_ranks(3, without_norms, other.path("run"), overrides, {.resume = true}); }),
               Contains(name + " has 100 bytes") && Contains("--accept-previous"));
    for (const RankRun& run :
         run_ranks(3, without_norms, other.path("run"), overrides, {.resume = true, .accept_previous = true})) {
      CHECK(run.status == RunStatus::done);
      CHECK(run.steps.front().step == 5);
    }
    CHECK(same_tensors(checkpoint_of(other, "run", 8), damaged));
  }
}

TEST_CASE("a parameter that is not finite on one rank keeps all from saving, and is named on all") {
  const OutputFolder folder;
  for (const char* shard : every_shard) {
    INFO(shard);
    std::vector<std::int32_t> named(3, -1);
    std::int32_t expected = -1;
    on_ranks(3, [&](SocketCommunicator& ranks) {
      LoadedRank rank(without_norms, {std::string("parallel.shard=") + shard}, ranks);
      const Program& program = rank.program;
      // The last two, of which different ranks write one each.
      for (std::size_t i = program.parameters.size() - 2; i < program.parameters.size(); ++i) {
        std::vector<float> values(static_cast<std::size_t>(program.parameters[i].type.num_elements()),
                                  std::numeric_limits<float>::quiet_NaN());
        rank.executor->write(program.parameter_buffers[i], values.data());
      }
      if (ranks.rank() == 0) expected = static_cast<std::int32_t>(program.parameters.size() - 2);
      named[static_cast<std::size_t>(ranks.rank())] = rank.save(folder.path("run"), ranks).non_finite_parameter;
    });
    CHECK(named == std::vector<std::int32_t>(3, expected));
    CHECK(names_in(folder.path("run")).empty());
  }
}

TEST_CASE("where the folder takes nothing all ranks fail alike, and say whose it was") {
  const OutputFolder folder;
  write_bytes(folder.path("in the way"), "a file");
  std::vector<std::string> messages(3);
  on_ranks(3, [&](SocketCommunicator& ranks) {
    LoadedRank rank(without_norms, {}, ranks);
    messages[static_cast<std::size_t>(ranks.rank())] =
        refusal_to([&] { rank.save(folder.path("in the way/checkpoints"), ranks); });
  });
  CHECK_THAT(messages[0], Contains("rank 0: '" + folder.path("in the way") + "' is no folder"));
  CHECK(messages[1] == messages[0]);
  CHECK(messages[2] == messages[0]);
}

TEST_CASE("a rank that sees another folder, or cannot write in it, is named on all before anything is trained") {
  const OutputFolder folder;
  make_directories_durably(folder.path("run"));
  make_directories_durably(folder.path("elsewhere"));
  const auto check = [&](const std::function<std::string(int rank)>& folder_of) {
    std::vector<std::string> messages(3);
    on_ranks(3, [&](SocketCommunicator& ranks) {
      messages[static_cast<std::size_t>(ranks.rank())] =
          refusal_to([&] { require_shared_folder(folder_of(ranks.rank()), ranks); });
    });
    CHECK(messages[1] == messages[0]);
    CHECK(messages[2] == messages[0]);
    return messages[0];
  };
  CHECK(check([&](int) { return folder.path("run"); }) == "");
  CHECK_THAT(check([&](int rank) { return folder.path(rank == 2 ? "elsewhere" : "run"); }),
             Contains("and rank 2 on ") && Contains(" does not see what rank 0 has written in ") &&
                 Contains(folder.path("elsewhere")) && Contains("checkpoint.sharded: false"));
  CHECK(names_in(folder.path("run")).empty());
  CHECK(names_in(folder.path("elsewhere")).empty());
  make_directories_durably(folder.path("run/.seen_by_all_ranks.1"));
  CHECK_THAT(check([&](int) { return folder.path("run"); }),
             Contains("and rank 1 on ") && Contains(" cannot write in " + folder.path("run")));
}

TEST_CASE("tensors are shared out evenly, none of the files empty, and what has fewest before gets first") {
  const auto tensor = [](std::int64_t num_elements) {
    const TensorType type{DType::f32, Shape{num_elements}};
    return SavedTensor{.tensor = {"t", type}, .kept = type};
  };
  const auto share = [&](const std::vector<std::int64_t>& sizes, std::vector<std::int64_t> before) {
    std::vector<SavedTensor> tensors;
    for (const std::int64_t size : sizes) tensors.push_back(tensor(size));
    return share_out(tensors, before);
  };
  using Files = std::vector<int>;
  CHECK(share({8, 5, 4, 3}, {0, 0}).of_tensor == Files{0, 1, 1, 0});
  CHECK(share({1, 100, 1, 99}, {0, 0}).of_tensor == Files{1, 0, 0, 1});
  CHECK(share({10, 10}, {40, 0, 0}).of_tensor == Files{1, 0});
  CHECK(share({10, 10}, {40, 0, 0}).count == 2);
  CHECK(share({0, 0, 7}, {0, 0, 0}).of_tensor == Files{1, 2, 0});
  CHECK(share({}, {0, 0}).count == 1);
  CHECK_FALSE(share({7}, {0, 0}).has_index());
  // As many as an index names.
  CHECK(share(std::vector<std::int64_t>(1000, 1), std::vector<std::int64_t>(700, 0)).count == 512);
  CHECK(shard_file("model", 3, 12) == "model-00004-of-00012.safetensors");
  CHECK(shard_file("model", 0, 1) == "model.safetensors");
}

TEST_CASE("a plan counts the piece that a rank gives of others' files, where ranks hold parts") {
  const auto writing_bytes = [](const std::string& shard, const std::string& sharded) {
    std::int64_t found = -1;
    on_ranks(2, [&](SocketCommunicator& ranks) {
      LoadedRank rank(without_norms, {"parallel.shard=" + shard, "checkpoint.sharded=" + sharded}, ranks);
      const DataDescription data = describe_data(rank.experiment.data, rank.experiment.seed);
      if (ranks.rank() != 1) return;
      for (const NamedBytes& part : process_memory(rank.experiment, rank.program, data, *rank.device).parts)
        if (part.name == "checkpoint writing") found = part.num_bytes;
    });
    return found;
  };
  const std::int64_t piece = writing_bytes("none", "false");
  CHECK(piece > 0);
  CHECK(writing_bytes("none", "true") == piece);
  CHECK(writing_bytes("parameters", "false") == piece);
  CHECK(writing_bytes("parameters", "true") == 2 * piece);
}
