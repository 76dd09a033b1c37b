#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>

#include "tests/cli/process.h"

// Plans of several ranks, which need none of their devices.

using namespace trainer;
using Catch::Contains;

namespace {

constexpr double micro = 1e-6;

struct PlansFolder : ScratchFolder {
  PlansFolder() {
    std::ofstream(*this / "small.yaml")
        << "name: small\ndata: {type: synthetic, shape: [40], classes: 8, samples: 300, validation_samples: 60}\n"
           "model: {layers: [{linear: {out: 64}}, relu, {linear: {out: 8}}]}\n"
           "optimizer: adam\ntrain: {batch_size: 60, epochs: 2}\n";
  }
  std::string config() const { return *this / "small.yaml"; }
  /// Of 4 samples rank 0 of 3 takes two, which are most of what it holds.
  void write_uneven() const {
    std::ofstream(*this / "uneven.yaml")
        << "name: uneven\ndevice: {type: cpu, threads: 1}\n"
           "data: {type: synthetic, shape: [64, 64, 3], classes: 4, samples: 16, validation_samples: 4}\n"
           "model: {layers: [{conv2d: {out: 24, kernel: 3, padding: 1}}, relu, {conv2d: {out: 24, kernel: 3, padding: "
           "1}}, relu, {maxpool2d: {kernel: 4}}, flatten, {linear: {out: 4}}]}\n"
           "train: {batch_size: 4, steps: 6, checkpointing: auto}\n";
  }
};

nlohmann::json planned(const std::vector<std::string>& words, int exit_code = 0) {
  std::vector<std::string> all = words;
  all.insert(all.begin(), "plan");
  all.emplace_back("--json");
  const ProcessResult result = run_trainer(all);
  INFO(result.err);
  REQUIRE(result.exit_code == exit_code);
  return nlohmann::json::parse(result.out);
}

/// The plan of that rank among those of all.
nlohmann::json plan_of_rank(const nlohmann::json& plan, std::int64_t rank) {
  for (const nlohmann::json& each : plan["ranks"]["plans"]) {
    const std::int64_t first = each["first_rank"];
    if (rank >= first && rank < first + each["num_ranks"].get<std::int64_t>()) return each;
  }
  FAIL("no plan of rank " << rank);
  return {};
}

std::int64_t num_ranks_in(const nlohmann::json& plan) {
  std::int64_t count = 0;
  for (const nlohmann::json& each : plan["ranks"]["plans"]) {
    CHECK(each["first_rank"] == count);
    count += each["num_ranks"].get<std::int64_t>();
  }
  return count;
}

/// Runs them; the events of each.
std::vector<std::vector<nlohmann::json>> events_of_ranks(const PlansFolder& folder, std::vector<std::string> words) {
  words.insert(words.begin(), "run");
  words.insert(words.end(), {"-q", "--overwrite", "output=" + (folder / "run")});
  const ProcessResult result = run_trainer(words);
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  std::vector<std::vector<nlohmann::json>> events;
  for (const char* file : {"run/events.jsonl", "run/ranks/1/events.jsonl", "run/ranks/2/events.jsonl"})
    events.push_back(events_in_file(folder / file));
  return events;
}

/// Without the ends of lines.
std::string unwrapped(const std::string& text) {
  std::string words;
  for (const char letter : text)
    if (const char next = letter == '\n' ? ' ' : letter; next != ' ' || !words.ends_with(' ')) words += next;
  return words;
}

void check_refused(std::vector<std::string> words, const std::string& sentence) {
  words.emplace_back("-q");
  const ProcessResult result = run_trainer(words);
  CHECK(result.exit_code == 2);
  CHECK_THAT(result.err, Contains(sentence));
  CHECK(result.out.empty());
}

}  // namespace

TEST_CASE("ranks of different GPUs are each planned as on their own GPU, and all wait for the slowest") {
  const PlansFolder folder;
  const nlohmann::json mixed = planned({folder.config(), "--gpu", "h100*2,t4*5", "train.batch_size=58"});
  REQUIRE(num_ranks_in(mixed) == 7);
  double slowest = 0, computing = 0;
  for (std::int64_t rank = 0; rank < 7; ++rank) {
    const std::string gpu = rank < 2 ? "h100" : "t4";
    const nlohmann::json alike = planned({folder.config(), "--gpu", gpu, "--ranks", "7", "train.batch_size=58"});
    nlohmann::json expected = plan_of_rank(alike, rank), own = plan_of_rank(mixed, rank);
    INFO(rank);
    CHECK(own["gpu"] == gpu);
    CHECK(expected["gpu"].is_null());
    CHECK(own["capacity"] == alike["capacity"]);
    CHECK(own["batch_size"] == (rank < 2 ? 9 : 8));  // 58 = 2 · 9 + 5 · 8
    for (const char* key : {"fits", "peak_allocated", "peak_reserved", "compute_seconds"})
      CHECK(own[key] == expected[key]);
    slowest = std::max(slowest, own["compute_seconds"].get<double>());
    computing += own["compute_seconds"].get<double>();
  }
  const nlohmann::json& ranks = mixed["ranks"];
  const double step = slowest + ranks["waiting_seconds"].get<double>();
  CHECK(mixed["step_seconds"].get<double>() == Approx(step));
  CHECK(mixed["samples_per_second"].get<double>() == Approx(58 / step));
  CHECK(ranks["efficiency"].get<double>() == Approx(computing / 7 / step));
  CHECK(ranks["link"] == "PCIe");
  CHECK(ranks["nodes"] == 1);
  CHECK(mixed["device"]["name"] == "NVIDIA H100 80GB HBM3");

  const auto told = [&](const std::string& gpus) {
    std::string text = run_trainer({"plan", folder.config(), "--gpu", gpus, "train.batch_size=58"}).out;
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
  };
  CHECK_THAT(told("h100*2,t4*5"), Contains("Ranks 2 to 6 (t4) have the least: "));
  CHECK_THAT(told("t4*5,h100*2"), Contains("to spare.") && !Contains("the least"));
  CHECK_THAT(told("h100*7"), Contains("to spare.") && !Contains("the least"));
}

TEST_CASE("a capacity that one of the GPUs has not got is told of, once, and that GPU has its own") {
  const PlansFolder folder;
  const nlohmann::json plan = planned({folder.config(), "--gpu", "h100*2,t4*2,t4*1", "--capacity", "40GiB"});
  CHECK(plan_of_rank(plan, 1)["capacity"] == std::int64_t{40} << 30);
  CHECK(plan_of_rank(plan, 2)["capacity"] < std::int64_t{16} << 30);
  const std::string notes = plan["notes"].dump(), told = "--capacity 40GiB is more than an idle Tesla T4 has free";
  CHECK_THAT(notes, Contains(told));
  CHECK(notes.find(told) == notes.rfind(told));
}

TEST_CASE("one kind of GPU with a number is that GPU and as many ranks") {
  const PlansFolder folder;
  CHECK(planned({folder.config(), "--gpu", "t4*3"}) == planned({folder.config(), "--gpu", "t4", "--ranks", "3"}));
  CHECK(planned({folder.config(), "--gpu", "t4*1"}) == planned({folder.config(), "--gpu", "t4"}));
  CHECK(planned({folder.config(), "--gpu", "t4*3", "--ranks", "3"}) ==
        planned({folder.config(), "--gpu", "t4*3", "parallel.data=3"}));
}

TEST_CASE("numbers of GPUs that cannot be are refused, each with what to write") {
  const PlansFolder folder;
  const auto refused = [&](const std::vector<std::string>& more, const std::string& sentence) {
    std::vector<std::string> words = {"plan", folder.config()};
    words.insert(words.end(), more.begin(), more.end());
    check_refused(words, sentence);
  };
  refused({"--gpu", "h100*4,t4"}, "'t4' has no number behind it, and others have; write t4*1, or give no numbers");
  for (const char* gpu : {"h100*0", "h100*", "h100*x", "h100*-1", "h100*2x", "*3", "h100*65537"})
    refused({"--gpu", gpu}, "write the name of a GPU and how many there are, 1 to 65536, such as h100*4");
  refused({"--gpu", "h100*40000,t4*40000"}, "is 80000 GPUs, and there may be 65536");
  refused({"--gpu", "h10*4"}, "unknown GPU profile 'h10'; did you mean 'h100'?");
  refused({"--gpu", "h100*2,t4*2", "--ranks", "3"}, "--gpu 'h100*2,t4*2' is 4 GPUs, and --ranks 3; leave one");
  refused({"--gpu", "h100*4", "--ranks", "1"}, "is 4 GPUs, and --ranks 1");
  refused({"--gpu", "h100*4", "parallel.data=2"}, "and parallel.data is 2; write parallel.data=4 behind");
  refused({"--gpu", "h100*1", "parallel.data=2"}, "is 1 GPU, and parallel.data is 2");
  refused({"--gpu", "h100*8", "parallel.data=2", "parallel.pipeline=2"},
          "and parallel.data is 2 of 2 ranks each; write parallel.data=4 behind");
  refused({"--gpu", "h100*2", "--verify"}, "--verify runs one process");
  refused({"--gpu", "h100*2", "--predict", "4"}, "--generate and --predict plan one process");
  refused({"--gpu", "h100*2", "--capacity", "1GiB,2GiB"}, "plans every rank for one --capacity");
  refused({"--gpu", "h100*61"}, "61 ranks share a batch, and train.batch_size is 60");
  refused({"--ranks", "61"}, "61 ranks share a batch, and train.batch_size is 60");
  const std::string elsewhere = "--gpu 'h100*2' gives a number of GPUs, which only ";
  check_refused({"sweep", folder.config(), "seed=1,2", "--plan-only", "--gpu", "h100*2"}, elsewhere);
}

TEST_CASE(
    "where ranks on another GPU than rank 0 do not fit, the plan says which, exits with 4, and tells how to go on") {
  const std::vector<std::string> words = {"configs/cifar10_resnet18.yaml", "train.batch_size=50000", "--gpu",
                                          "h100*4,t4*4"};
  const nlohmann::json plan = planned(words, 4);
  CHECK(plan["fits"] == false);
  CHECK(plan_of_rank(plan, 0)["fits"] == true);
  CHECK(plan_of_rank(plan, 3)["gpu"] == "h100");
  const nlohmann::json failing = plan_of_rank(plan, 4);
  CHECK(failing["fits"] == false);
  CHECK(failing["peak_reserved"] > failing["capacity"]);
  std::vector<std::string> all = words;
  all.insert(all.begin(), "plan");
  const ProcessResult told = run_trainer(all);
  CHECK(told.exit_code == 4);
  CHECK_THAT(told.out, Contains("Does not fit on every rank: ranks 4 to 7 (t4) would reserve "));
  CHECK_THAT(told.out, Contains("What would fit there, were all ranks on a t4:\n"));
  CHECK_THAT(told.out, Contains("parallel.data=8 --gpu t4\n"));
}

TEST_CASE("what ranks of GPUs tell each other takes bytes over the links' rate and their latencies") {
  const PlansFolder folder;
  const nlohmann::json two = planned({folder.config(), "--gpu", "h100", "--ranks", "2"});
  const nlohmann::json& ranks = two["ranks"];
  const std::int64_t bytes = ranks["communicated_bytes"];
  const std::int64_t gradients = 4 * (40 * 64 + 64 + 64 * 8 + 8);
  const std::int64_t statistics = bytes - gradients;  // of two ranks, 2 · 1/2 of them
  REQUIRE(statistics > 0);
  REQUIRE(statistics < 512);
  CHECK(ranks["link"] == "NVLink");
  const auto seconds_of = [](double num_bytes) {
    const double rate = 0.8 * 450e9;
    return std::min((8.4 + 2 * 3.4) * micro + num_bytes / rate, (3.6 + 2 * 0.47) * micro + 4 * num_bytes / rate);
  };
  CHECK(ranks["communication_seconds"].get<double>() ==
        Approx(seconds_of(static_cast<double>(gradients)) + seconds_of(static_cast<double>(statistics))).epsilon(1e-9));
  const double alone = plan_of_rank(two, 0)["compute_seconds"];
  CHECK(ranks["efficiency"].get<double>() ==
        Approx(alone / (alone + ranks["communication_seconds"].get<double>())).epsilon(1e-9));
  CHECK(ranks["waiting_seconds"].get<double>() == Approx(ranks["communication_seconds"].get<double>()));
}

TEST_CASE("what ranks of GPUs tell each other beside the backward pass is not waited for") {
  const PlansFolder folder;
  const auto ranks_of = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {folder.config(), "--gpu", "h100", "--ranks", "2", "parallel.bucket_size=1"});
    return planned(more);
  };
  const nlohmann::json overlapping = ranks_of({}), waiting = ranks_of({"parallel.overlap=false"});
  const nlohmann::json& ranks = overlapping["ranks"];
  const double waited = ranks["waiting_seconds"], alone = plan_of_rank(overlapping, 0)["compute_seconds"];
  CHECK(waited > 0);
  CHECK(waited < ranks["communication_seconds"].get<double>());
  CHECK(overlapping["step_seconds"].get<double>() == Approx(alone + waited));
  CHECK(ranks["efficiency"].get<double>() == Approx(alone / (alone + waited)));
  CHECK(waiting["ranks"]["waiting_seconds"] == waiting["ranks"]["communication_seconds"]);
  CHECK(ranks["communicated_bytes"] == waiting["ranks"]["communicated_bytes"]);
}

TEST_CASE("eight GPUs stand on a machine where parallel.ranks_per_node does not say otherwise") {
  const PlansFolder folder;
  const auto ranks_of = [&](const std::string& gpu, std::vector<std::string> more) {
    more.insert(more.begin(), {folder.config(), "--gpu", gpu, "--ranks", "16"});
    return planned(more)["ranks"];
  };
  CHECK(ranks_of("h100", {})["nodes"] == 2);
  const nlohmann::json one = ranks_of("h100", {"parallel.ranks_per_node=16"});
  CHECK(one["nodes"] == 1);
  CHECK(one["link"] == "NVLink");
  const nlohmann::json each = ranks_of("h100", {"parallel.ranks_per_node=1"});
  CHECK(each["nodes"] == 16);
  CHECK(each["link"] == "the network");
  CHECK(each["communication_seconds"] > one["communication_seconds"]);
  // No figure is made up where none is published.
  const nlohmann::json unknown = ranks_of("t4", {});
  for (const char* key : {"communication_seconds", "waiting_seconds", "link", "efficiency"})
    CHECK(unknown[key].is_null());
  CHECK(ranks_of("t4", {"parallel.ranks_per_node=16"})["link"] == "PCIe");
  const ProcessResult told = run_trainer({"plan", folder.config(), "--gpu", "t4", "--ranks", "16"});
  CHECK_THAT(unwrapped(told.out),
             Contains("the ranks are on 2 machines, and a GPU's profile does not say links.network."));
}

TEST_CASE("of ranks on CPUs the time on the wire is not known, and said") {
  const PlansFolder folder;
  const nlohmann::json plan = planned({folder.config(), "device.type=cpu", "--ranks", "4"});
  for (const char* key : {"communication_seconds", "waiting_seconds", "link", "efficiency"})
    CHECK(plan["ranks"][key].is_null());
  CHECK(plan["ranks"]["nodes"] == 1);
  CHECK(plan["step_seconds"] == plan_of_rank(plan, 0)["compute_seconds"]);
  const ProcessResult told = run_trainer({"plan", folder.config(), "device.type=cpu", "--ranks", "4"});
  CHECK_THAT(unwrapped(told.out), Contains("left out of the time of a step: how fast ranks on CPUs reach one another "
                                           "was not measured."));
  // A machine that holds fewer of them has more memory for each.
  const nlohmann::json fewer =
      planned({folder.config(), "device.type=cpu", "--ranks", "4", "parallel.ranks_per_node=2"});
  CHECK(fewer["ranks"]["nodes"] == 2);
  CHECK(fewer["capacity"].get<double>() > 1.5 * plan["capacity"].get<double>());
}

TEST_CASE("stages of several ranks tell what each rank holds in each, as the plan of a stage alone does") {
  const std::vector<std::string> ranks = {"--ranks", "3", "--capacity", "200MiB"};
  std::vector<std::string> words = {"configs/stages.yaml"};
  words.insert(words.end(), ranks.begin(), ranks.end());
  const nlohmann::json all = planned(words);
  REQUIRE(all["stages"].size() == 3);
  for (const nlohmann::json& stage : all["stages"]) {
    std::vector<std::string> alone = words;
    alone.insert(alone.end(), {"--stage", stage["stage"].get<std::string>()});
    CHECK(stage["ranks"] == planned(alone)["ranks"]);
  }
  words.insert(words.begin(), "plan");
  const std::string told = run_trainer(words).out;
  CHECK_THAT(told, Contains("What each rank holds at its peak\n  stage     ranks  "));
  for (const char* stage : {"  head      rank 0", "  finetune  rank 0", "  larger    rank 0"})
    CHECK_THAT(told, Contains(stage));
  CHECK_THAT(unwrapped(told), Contains("To each update every one of the 3 ranks sends, and receives as much: "));
}

TEST_CASE("stages that keep the cache of the one before plan each rank with its own") {
  const PlansFolder folder;
  std::ofstream(folder / "staged.yaml") << "extends: small.yaml\nstages:\n  - name: one\n    train: {batch_size: 61}\n"
                                           "  - name: two\n    purge: false\n    train: {batch_size: 59}\n";
  const nlohmann::json all = planned({folder / "staged.yaml", "--gpu", "t4*2"});
  const nlohmann::json alone = planned({folder / "staged.yaml", "--gpu", "t4*2", "--stage", "two"});
  CHECK(all["stages"][1]["ranks"] == alone["ranks"]);
}

TEST_CASE("each rank settles what is left open for its own part, and its run holds what its plan says") {
  const PlansFolder folder;
  folder.write_uneven();
  const std::vector<std::string> allocators = {"planned", "planned", "caching"};
  const std::vector<std::string> limits = {"2500KiB", "3500KiB", "5000KiB"};
  for (std::size_t i = 0; i < limits.size(); ++i) {
    INFO(limits[i]);
    const std::vector<std::string> words = {folder / "uneven.yaml", "--ranks", "3", "memory.limit=" + limits[i]};
    const nlohmann::json plan = planned(words);
    CHECK(plan["allocator"] == allocators[i]);
    const auto events = events_of_ranks(folder, words);
    for (std::int64_t rank = 0; rank < 3; ++rank) {
      const nlohmann::json own = plan_of_rank(plan, rank);
      CHECK(own["batch_size"] == (rank == 0 ? 2 : 1));
      for (const char* key : {"peak_allocated", "peak_reserved"})
        CHECK(own[key] == events[static_cast<std::size_t>(rank)].back()[key]);
      CHECK(own["by_category"] == events[static_cast<std::size_t>(rank)].back()["peak_by_category"]);
    }
    // Rank 0 alone must save: the others have the segments that they would have without a bound.
    CHECK(plan_of_rank(plan, 1)["peak_reserved"] == 2 << 20);
    CHECK((plan_of_rank(plan, 0)["peak_reserved"] < 4 << 20) == (allocators[i] == "planned"));
  }
}

TEST_CASE("ranks of smaller parts hold what their plans say where each takes its part in pieces") {
  const PlansFolder folder;
  std::ofstream(folder / "pieces.yaml")
      << "device: {type: cpu, threads: 1}\ndata: {type: synthetic, shape: [64], classes: 4, samples: 10}\n"
         "model: {layers: [{linear: {out: 64}}, relu, {linear: {out: 4}}]}\ntrain: {batch_size: 5}\n"
         "parallel: {micro_batches: 2}\n";
  const std::vector<std::string> words = {folder / "pieces.yaml", "--ranks", "3"};
  const nlohmann::json plan = planned(words);
  const auto events = events_of_ranks(folder, words);
  for (std::int64_t rank = 0; rank < 3; ++rank) {
    INFO(rank);
    const nlohmann::json own = plan_of_rank(plan, rank);
    CHECK(own["batch_size"] == (rank < 2 ? 2 : 1));
    CHECK(own["peak_allocated"] == events[static_cast<std::size_t>(rank)].back()["peak_allocated"]);
    CHECK(own["by_category"] == events[static_cast<std::size_t>(rank)].back()["peak_by_category"]);
  }
}

TEST_CASE("plan --full tells what each rank holds by category, which is all that it holds") {
  const PlansFolder folder;
  std::ofstream(folder / "stages.yaml")
      << "device: {type: cpu, threads: 1}\ndata: {type: synthetic, shape: [64], classes: 4, samples: 16}\n"
         "model: {layers: [{linear: {out: 512}}, relu, {linear: {out: 4}}]}\ntrain: {batch_size: 4}\n"
         "optimizer: {type: adam}\nparallel: {pipeline: 2, cut: ['2']}\n";
  const nlohmann::json plan = planned({folder / "stages.yaml"});
  for (const nlohmann::json& rank : plan["ranks"]["plans"]) {
    std::int64_t sum = 0;
    for (const auto& [name, num_bytes] : rank["by_category"].items()) sum += num_bytes.get<std::int64_t>();
    CHECK(sum == rank["peak_allocated"]);
    // Of two stages each has the weights of its own layers: in f32, with Adam's two moments.
    const std::int64_t weights = rank["first_rank"] == 0 ? (64 + 1) * 512 * 4 : (512 + 1) * 4 * 4;
    CHECK(rank["by_category"]["parameter"].get<std::int64_t>() >= weights);
    CHECK(rank["by_category"]["parameter"].get<std::int64_t>() < weights + 1024);
    CHECK(rank["by_category"]["optimizer_state"].get<std::int64_t>() >= 2 * weights);
  }
  const std::string full = run_trainer({"plan", folder / "stages.yaml", "--full"}).out;
  CHECK_THAT(unwrapped(full), Contains(" by category parameter gradient optimizer activation other bytes rank 0 "));
  CHECK_THAT(unwrapped(run_trainer({"plan", folder / "stages.yaml"}).out), !Contains(" by category parameter "));
}

TEST_CASE("a rank begins a stage with the cache of its own part in the stage before") {
  const PlansFolder folder;
  folder.write_uneven();
  std::ofstream(folder / "staged.yaml")
      << "extends: uneven.yaml\nmemory: {allocator: caching, limit: 8MiB}\n"
         "train: {checkpointing: off}\nstages:\n"
         "  - {name: one, train: {batch_size: 4}}\n"
         "  - {name: two, purge: false, train: {batch_size: 3, eval_batch_size: 3}}\n";
  const std::vector<std::string> words = {folder / "staged.yaml", "--ranks", "3"};
  const nlohmann::json plan = planned(words);
  const auto events = events_of_ranks(folder, words);
  for (std::int64_t rank = 0; rank < 3; ++rank) {
    INFO(rank);
    std::int64_t reserved = 0;
    for (const nlohmann::json& step : events_named(events[static_cast<std::size_t>(rank)], "step"))
      if (step["stage"] == "two") reserved = step["memory"]["peak_reserved"];
    CHECK(plan_of_rank(plan["stages"][1], rank)["peak_reserved"] == reserved);
  }
  // All take one sample in stage two, behind two of rank 0 in stage one.
  CHECK(plan_of_rank(plan["stages"][1], 0)["peak_reserved"] > plan_of_rank(plan["stages"][1], 1)["peak_reserved"]);
}

TEST_CASE("fit of several ranks keeps the samples of all, tells rank 0's bytes, and its choices are planned the same") {
  const PlansFolder folder;
  const std::vector<std::string> device = {"device.type=cpu", "device.threads=1"};
  const auto fitted = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"fit", folder.config(), "--ranks", "4", "--json"};
    words.insert(words.end(), device.begin(), device.end());
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult result = run_trainer(words);
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    return nlohmann::json::parse(result.out);
  };
  const auto plan_with = [&](const std::vector<std::string>& set, const std::string& capacity, int exit_code = 0) {
    std::vector<std::string> words = {folder.config(), "--ranks", "4", "--capacity", capacity};
    words.insert(words.end(), device.begin(), device.end());
    words.insert(words.end(), set.begin(), set.end());
    return planned(words, exit_code);
  };
  const nlohmann::json unbounded = plan_with({"train.batch_size=300"}, "1GiB");
  const std::string capacity = std::to_string(unbounded["peak_reserved"].get<std::int64_t>() * 9 / 10);
  const nlohmann::json fit = fitted({"--capacity", capacity, "train.batch_size=300"});
  CHECK(fit["ranks"] == 4);
  CHECK(fit["samples_per_update"] == 300);
  CHECK(fit["as_is"]["peak_reserved"] >= unbounded["peak_allocated"]);
  REQUIRE(fit["choices"].size() > 0);
  for (const nlohmann::json& choice : fit["choices"]) {
    std::vector<std::string> set = {"train.batch_size=300"};
    for (const nlohmann::json& word : choice["set"]) set.push_back(word);
    const nlohmann::json plan = plan_with(set, capacity);
    INFO(choice["set"]);
    CHECK(plan["fits"] == true);
    CHECK(plan["peak_reserved"] == choice["peak_reserved"]);
    CHECK(plan["batch_size"] >= 4);
  }
  const nlohmann::json maximum = fitted({"--capacity", capacity, "--max", "train.batch_size"})["maximum"];
  const std::int64_t value = maximum["value"];
  CHECK(maximum["lowest"] == 4);
  CHECK(plan_with({"train.batch_size=" + std::to_string(value)}, capacity)["fits"] == true);
  CHECK(value >= 4);
  if (value < 300) CHECK(plan_with({"train.batch_size=" + std::to_string(value + 1)}, capacity, 4)["fits"] == false);
  const ProcessResult told = run_trainer({"fit", folder.config(), "--ranks", "4", "--gpu", "h100"});
  CHECK_THAT(unwrapped(told.out), Contains("4 ranks share each batch, and the samples of an update and of a batch are "
                                           "those of all; what is reserved is that of rank 0"));
}

TEST_CASE("a configuration with ranks is fitted as with --ranks") {
  const PlansFolder folder;
  const auto fit = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"fit", folder.config(), "--json", "--gpu", "t4", "--capacity", "300KiB"};
    words.insert(words.end(), more.begin(), more.end());
    return nlohmann::json::parse(run_trainer(words).out);
  };
  CHECK(fit({"--ranks", "3"}) == fit({"parallel.data=3"}));
  CHECK(fit({"--ranks", "3"})["as_is"]["peak_reserved"] < fit({})["as_is"]["peak_reserved"]);
}

TEST_CASE("targets that are compared with ranks say that they are of rank 0, whose plan they are") {
  const PlansFolder folder;
  const nlohmann::json compared = planned({folder.config(), "--gpu", "t4,h100", "--ranks", "7"});
  REQUIRE(compared["targets"].size() == 2);
  for (const nlohmann::json& target : compared["targets"]) {
    const nlohmann::json one = planned({folder.config(), "--gpu", target["target"].get<std::string>(), "--ranks", "7"});
    CHECK(target["peak_reserved"] == one["peak_reserved"]);
    CHECK(target["step_seconds"] == one["step_seconds"]);
  }
  CHECK_THAT(compared["notes"].dump(), Contains("7 ranks train together; this is of rank 0"));
}

namespace {

nlohmann::json fitted(const std::vector<std::string>& more, int exit_code = 0) {
  std::vector<std::string> words = {"fit"};
  words.insert(words.end(), more.begin(), more.end());
  words.emplace_back("--json");
  const ProcessResult result = run_trainer(words);
  INFO(result.err);
  REQUIRE(result.exit_code == exit_code);
  return nlohmann::json::parse(result.out);
}

/// What is set beside the number of ranks.
nlohmann::json other_settings(const nlohmann::json& choice) {
  nlohmann::json set = nlohmann::json::array();
  for (const nlohmann::json& each : choice["set"])
    if (!each.get<std::string>().starts_with("parallel.data=")) set.push_back(each);
  return set;
}

}  // namespace

TEST_CASE("fit over ranks finds the fewest that fit, and of each number what fit finds for it alone") {
  const PlansFolder folder;
  std::ofstream(folder / "wide.yaml") << "extends: small.yaml\nmodel: {layers: [{linear: {out: 1024}}, relu, {linear: "
                                         "{out: 1024}}, relu, {linear: {out: 8}}]}\n";
  for (const char* capacity : {"40MiB", "7MiB"}) {
    INFO(capacity);
    const std::vector<std::string> words = {folder / "wide.yaml", "--gpu", "h100", "--capacity", capacity};
    const auto with = [&](const std::string& ranks, int exit_code) {
      std::vector<std::string> all = words;
      all.insert(all.end(), {"--ranks", ranks});
      return fitted(all, exit_code);
    };
    const nlohmann::json range = with("1..8", 0);
    REQUIRE(range["searched_ranks"].size() == 4);
    for (const nlohmann::json& searched : range["searched_ranks"]) {
      const std::int64_t ranks = searched["ranks"];
      INFO(ranks);
      const bool fits = searched["fits"];
      const nlohmann::json alone = with(std::to_string(ranks), fits ? 0 : 4);
      CHECK(searched["capacity"] == alone["capacity"]);
      CHECK(fits == !alone["choices"].empty());
      std::int64_t num_rows = 0;
      for (const nlohmann::json& row : range["choices"]) {
        if (row["ranks"] != ranks) continue;
        ++num_rows;
        const auto same = std::find_if(alone["choices"].begin(), alone["choices"].end(),
                                       [&](const auto& choice) { return choice["set"] == other_settings(row); });
        REQUIRE(same != alone["choices"].end());
        CHECK(row["peak_reserved"] == (*same)["peak_reserved"]);
        CHECK(row["step_seconds"] == (*same)["step_seconds"]);
        CHECK(row["set"].size() == other_settings(row).size() + (ranks == 1 ? 0 : 1));
        CHECK(row["efficiency"] <= 1.01);
      }
      CHECK((num_rows > 0) == fits);
      CHECK(num_rows <= 3);
    }
    std::vector<bool> fits;
    for (const nlohmann::json& searched : range["searched_ranks"]) fits.push_back(searched["fits"]);
    const bool is_ample = std::string(capacity) == "40MiB";
    CHECK(fits == std::vector<bool>{is_ample, is_ample, true, true});
  }
  CHECK(fitted({folder / "wide.yaml", "--gpu", "h100", "--capacity", "1MiB", "--ranks", "1..8"}, 4)["choices"].empty());
}

TEST_CASE("fit over ranks leaves out numbers that cannot share the batch, and says why; h100*8 is 1..8 of them") {
  const PlansFolder folder;
  const nlohmann::json range = fitted({folder.config(), "--gpu", "h100", "--ranks", "32..64"});
  REQUIRE(range["searched_ranks"].size() == 2);
  CHECK(range["searched_ranks"][0]["problem"].is_null());
  CHECK_THAT(range["searched_ranks"][1]["problem"].get<std::string>(), Contains("64 ranks share a batch"));
  CHECK_THAT(range["notes"].dump(), Contains("Left out: 64 ranks: "));
  CHECK(fitted({folder.config(), "--gpu", "h100*8"}) == fitted({folder.config(), "--gpu", "h100", "--ranks", "1..8"}));
  check_refused({"fit", folder.config(), "--gpu", "h100", "--ranks", "61..64"}, "61 ranks share a batch");
}

TEST_CASE("what fit cannot search over is refused") {
  const PlansFolder folder;
  for (const char* ranks : {"0..4", "x", "1..", "..4", "1..65537", "-1"})
    check_refused({"fit", folder.config(), "--ranks=" + std::string(ranks)}, "write a number of ranks, 1 to 65536");
  check_refused({"fit", folder.config(), "--ranks", "3..1"}, "ends below its begin; write 1..3");
  check_refused({"fit", folder.config(), "--gpu", "h100*4,t4*4"}, "fit searches for one kind of GPU");
  check_refused({"fit", folder.config(), "--gpu", "h100*4", "--ranks", "1..4"}, "leave one out");
  check_refused({"fit", folder.config(), "--ranks", "1..4", "--max", "train.batch_size"}, "write --ranks 4");
}

TEST_CASE("plans of deterministic ranks tell the samples and parts of each, and what each holds in its run") {
  const PlansFolder folder;
  // 60 samples in 8 parts: four of 8, and four of 7.
  struct Case {
    const char* shard;
    int num_ranks;
    std::vector<int> batches;
  };
  for (const auto& [shard, num_ranks, batches] :
       {Case{"none", 2, {32, 28}}, Case{"none", 4, {16, 16, 14, 14}}, Case{"optimizer", 2, {32, 28}},
        Case{"gradients", 2, {30, 30}}, Case{"parameters", 4, {15, 15, 15, 15}}}) {
    INFO(shard << ", " << num_ranks);
    const std::vector<std::string> words = {folder.config(),           "device={type: cpu, threads: 1}",
                                            "data.shape=[400]",        "--ranks",
                                            std::to_string(num_ranks), "parallel.deterministic=true",
                                            "parallel.parts=8",        std::string("parallel.shard=") + shard};
    const nlohmann::json plan = planned(words);
    std::vector<std::string> run = words;
    const std::string output = folder / (shard + std::to_string(num_ranks));
    run.insert(run.begin(), "run");
    run.insert(run.end(), {"-q", "output=" + output});
    REQUIRE(run_trainer(run).exit_code == 0);
    for (int rank = 0; rank < num_ranks; ++rank) {
      INFO("rank " << rank);
      const nlohmann::json planned_rank = plan_of_rank(plan, rank);
      CHECK(planned_rank["batch_size"] == batches[static_cast<std::size_t>(rank)]);
      CHECK(planned_rank["parts"] == 8 / num_ranks);
      const std::string of_rank = rank == 0 ? output : output + "/ranks/" + std::to_string(rank);
      const nlohmann::json end = events_in_file(of_rank + "/events.jsonl").back();
      CHECK(planned_rank["peak_allocated"] == end["peak_allocated"]);
      CHECK(planned_rank["by_category"] == end["peak_by_category"]);
      CHECK(planned_rank["peak_reserved"] == end["peak_reserved"]);
    }
    std::vector<std::string> text = words;
    text.insert(text.begin(), "plan");
    CHECK_THAT(run_trainer(text).out,
               Contains(std::to_string(batches.front()) + " in " + std::to_string(8 / num_ranks) + " parts"));
  }
}

TEST_CASE("a number of ranks that is none says so, and who takes a range") {
  const PlansFolder folder;
  for (const char* command : {"plan", "run"}) {
    const ProcessResult word = run_trainer({command, folder.config(), "--ranks", "two"});
    CHECK(word.exit_code == 2);
    CHECK_THAT(word.err, Contains("'two' is no whole number from 1 to 65536") && !Contains("takes a range"));
    CHECK_THAT(run_trainer({command, folder.config(), "--ranks", "1..8"}).err, Contains("fit' takes a range"));
    CHECK_THAT(run_trainer({command, folder.config(), "--ranks", "010"}).err, Contains("'010' is no whole number"));
  }
}

TEST_CASE("a plan leaves out values of parallel.shard that its other settings do not go with") {
  const PlansFolder folder;
  const nlohmann::json plan = planned({folder.config(), "--ranks", "2", "--gpu", "h100", "train.amp=bf16",
                                       "memory.gradients=16bit", "memory.master_weights=false"});
  REQUIRE(plan["ranks"]["shards"].size() == 1);
  CHECK(plan["ranks"]["shards"][0]["shard"] == "none");
}
