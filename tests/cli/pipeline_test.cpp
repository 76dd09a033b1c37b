#include <signal.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>

#include "tests/cli/process.h"

// Pipelines as processes.

using namespace trainer;
using Catch::Contains;

namespace {

struct PipelineFolder : ScratchFolder {
  PipelineFolder() {
    std::ofstream yaml(*this / "deep.yaml");
    yaml << "name: deep\ndevice: {type: cpu, threads: 1}\ndata: {type: digits}\n"
            "model: {layers: [flatten, {linear: {out: 96, name: first}}, relu, {linear: {out: 80}}, relu, {linear: "
            "{out: "
            "64, name: third}}, tanh, {linear: {out: 10, name: head}}]}\n"
            "optimizer: {type: sgd, lr: 0.05, momentum: 0.9}\ntrain: {batch_size: 50, epochs: 2}\n";
  }
  std::string config() const { return *this / "deep.yaml"; }
  /// A network whose first layer holds much and takes no time.
  std::string words() const {
    std::ofstream(*this / "words.yaml")
        << "name: words\ndevice: {type: cpu, threads: 1}\n"
           "data: {type: synthetic, samples: 64, sequence_length: 8, classes: 40, validation_samples: 0}\n"
           "model: {layers: [{embedding: {num: 3000, dim: 32, name: wte}}, {linear: {out: 96}}, gelu, {linear: {out: "
           "48}}, gelu, {linear: {out: 96}}, gelu, {linear: {out: 40}}]}\n"
           "optimizer: adam\ntrain: {batch_size: 16}\n";
    return *this / "words.yaml";
  }
  std::string output(const std::string& run) const { return "output=" + (*this / run); }
  std::string file(const std::string& run, const std::string& name) const {
    std::ifstream in(*this / (run + "/" + name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
};

std::vector<double> losses_in(const std::vector<nlohmann::json>& events) {
  std::vector<double> losses;
  for (const nlohmann::json& event : events_named(events, "step")) losses.push_back(event["loss"].get<double>());
  return losses;
}

}  // namespace

TEST_CASE("each rank of a pipeline holds what plan says of it, and the losses are those of one process") {
  const PipelineFolder folder;
  const ProcessResult one =
      run_trainer({"run", folder.config(), "--json", "parallel.micro_batches=5", folder.output("one")});
  REQUIRE(one.exit_code == 0);
  for (const char* schedule : {"gpipe", "1f1b", "zero_bubble"}) {
    INFO(schedule);
    const std::vector<std::string> layout = {"parallel.pipeline=3", "parallel.micro_batches=5",
                                             std::string("parallel.schedule=") + schedule};
    std::vector<std::string> words = {"plan", folder.config(), "--json"};
    words.insert(words.end(), layout.begin(), layout.end());
    const ProcessResult planned = run_trainer(words);
    INFO(planned.err);
    REQUIRE(planned.exit_code == 0);
    const nlohmann::json plans = nlohmann::json::parse(planned.out)["ranks"]["plans"];
    REQUIRE(plans.size() == 3);
    words = {"run", folder.config(), "--json", folder.output(schedule)};
    words.insert(words.end(), layout.begin(), layout.end());
    const ProcessResult run = run_trainer(words);
    INFO(run.err);
    REQUIRE(run.exit_code == 0);
    CHECK(losses_in(events_of(run.out)) == losses_in(events_of(one.out)));
    for (std::size_t rank = 0; rank < 3; ++rank) {
      const std::string own = rank == 0 ? "" : "/ranks/" + std::to_string(rank);
      const nlohmann::json end = events_in_file(folder / (schedule + own + "/events.jsonl")).back();
      CHECK(end["peak_allocated"] == plans[rank]["peak_allocated"]);
      CHECK(end["peak_reserved"] == plans[rank]["peak_reserved"]);
      CHECK_FALSE(plans[rank]["layers"].get<std::string>().empty());
    }
    // What a stage has is a part of the model, and its checkpoint all of it.
    CHECK(folder.file(schedule, "checkpoints/latest/model.safetensors") ==
          folder.file("one", "checkpoints/latest/model.safetensors"));
  }
}

TEST_CASE("named cuts are where stages begin, and wrong ones are refused where they stand") {
  const PipelineFolder folder;
  const auto planned = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"plan", folder.config(), "--json", "parallel.pipeline=2"};
    words.insert(words.end(), more.begin(), more.end());
    return run_trainer(words);
  };
  const ProcessResult named = planned({"parallel.cut=[third]"});
  INFO(named.err);
  REQUIRE(named.exit_code == 0);
  const nlohmann::json plans = nlohmann::json::parse(named.out)["ranks"]["plans"];
  CHECK(plans[0]["layers"] == "0 to 4");
  CHECK(plans[1]["layers"] == "third to head");
  for (const auto& [words, expected] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"parallel.cut=[nowhere]"}, "parallel.cut"},
           {{"parallel.cut=[third,head]"}, "'parallel.cut' says where 2 parts of the list of layers begin"},
           {{"parallel.pipeline=40"}, "is not cut into 40 parts"},
           {{"parallel.deterministic=true"}, "micro-batches of a pipeline are added up one behind the other"},
           {{"memory.update=in_backward"}, "'memory.update: in_backward' updates sooner"},
           {{"parallel.schedule=fastest"}, "gpipe, 1f1b, interleaved, zero_bubble"}}) {
    const ProcessResult refused = planned(words);
    INFO(words.front());
    CHECK(refused.exit_code == 2);
    CHECK_THAT(refused.err, Contains(expected));
  }
  const ProcessResult odd = run_trainer({"run", folder.config(), "--ranks", "3", "parallel.pipeline=2"});
  CHECK(odd.exit_code == 2);
  CHECK_THAT(odd.err, Contains("3 ranks are not shared evenly"));
}

TEST_CASE("a stage of a pipeline that does not fit is told by its rank, its stage and its layers") {
  const PipelineFolder folder;
  std::vector<std::string> words = {"plan", folder.config(), "--json", "parallel.pipeline=2", "parallel.cut=[head]"};
  const nlohmann::json plans = nlohmann::json::parse(run_trainer(words).out)["ranks"]["plans"];
  REQUIRE(plans[0]["peak_allocated"] > plans[1]["peak_allocated"]);
  const ProcessResult run = run_trainer({"run", folder.config(), "parallel.pipeline=2", "parallel.cut=[head]",
                                         "memory.allocator=planned", "memory.limit=200KiB", folder.output("small")});
  CHECK(run.exit_code == 3);
  CHECK_THAT(run.out + run.err, Contains("stage 1 of 2"));
  CHECK_THAT(run.out + run.err, Contains("0 to 6"));
}

TEST_CASE("stages that do not fit where they are cut by time are cut elsewhere, in plan, fit and run alike") {
  const PipelineFolder folder;
  const auto with = [&](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.begin() + 1, {folder.words(), "parallel.pipeline=2", "memory.allocator=planned"});
    words.insert(words.end(), more.begin(), more.end());
    return run_trainer(words);
  };
  const nlohmann::json by_time = nlohmann::json::parse(with({"plan", "--json"}, {}).out);
  CHECK(by_time["notes"].empty());
  const auto most = by_time["ranks"]["plans"][0]["peak_reserved"].get<std::int64_t>();
  REQUIRE(most > by_time["ranks"]["plans"][1]["peak_reserved"].get<std::int64_t>());
  const std::string limit = "memory.limit=" + std::to_string(most - 1);

  const ProcessResult planned = with({"plan", "--json"}, {limit});
  INFO(planned.err);
  REQUIRE(planned.exit_code == 0);
  const nlohmann::json plan = nlohmann::json::parse(planned.out);
  const nlohmann::json& plans = plan["ranks"]["plans"];
  CHECK(plans[0]["layers"] != by_time["ranks"]["plans"][0]["layers"]);
  CHECK_THAT(plan["notes"].dump(), Contains("parallel.cut=[") && Contains("slowest stage"));
  const ProcessResult fit = with({"fit", "--json"}, {limit});
  INFO(fit.err);
  REQUIRE(fit.exit_code == 0);
  CHECK(nlohmann::json::parse(fit.out)["as_is"]["fits"] == true);

  for (const char* const more : {"--overwrite", "--resume"}) {
    const bool resumes = std::string(more) == "--resume";
    const ProcessResult run =
        with({"run", "--json", more}, {limit, folder.output("cut"), resumes ? "train.epochs=2" : "train.epochs=1"});
    INFO(run.err);
    REQUIRE(run.exit_code == 0);
    const std::vector<nlohmann::json> events = events_of(run.out);
    const std::vector<nlohmann::json> warnings = events_named(events, "warning");
    CHECK(std::any_of(warnings.begin(), warnings.end(), [](const nlohmann::json& warning) {
      return warning["message"].get<std::string>().find("parallel.cut=[") != std::string::npos;
    }));
    const nlohmann::json cut = events_named(events, "start").front()["config"]["parallel"]["cut"];
    CHECK(plan["notes"].dump().find(cut[0].get<std::string>()) != std::string::npos);
    for (std::size_t rank = 0; rank < 2 && !resumes; ++rank) {
      const std::string own = rank == 0 ? "" : "/ranks/" + std::to_string(rank);
      CHECK(events_in_file(folder / ("cut" + own + "/events.jsonl")).back()["peak_reserved"] ==
            plans[rank]["peak_reserved"]);
    }
  }
}

TEST_CASE("what would fit is told where another stage than the first does not, and fits when it is pasted") {
  const PipelineFolder folder;
  // All but the first layers on rank 1.
  const std::vector<std::string> layout = {"parallel.pipeline=2", "parallel.cut=[3]", "memory.allocator=planned"};
  const auto planned = [&](const std::vector<std::string>& more, const std::string& view) {
    std::vector<std::string> words = {"plan", folder.config(), view};
    words.insert(words.end(), layout.begin(), layout.end());
    words.insert(words.end(), more.begin(), more.end());
    return run_trainer(words);
  };
  const nlohmann::json plans = nlohmann::json::parse(planned({}, "--json").out)["ranks"]["plans"];
  const auto most = plans[1]["peak_reserved"].get<std::int64_t>();
  REQUIRE(plans[0]["peak_reserved"].get<std::int64_t>() < most);
  const std::string limit = "memory.limit=" + std::to_string(most - 1);
  const ProcessResult told = planned({limit}, "--full");
  CHECK(told.exit_code == 4);
  CHECK_THAT(told.out, Contains("rank 1 (stage 2 of 2: 3 to head) would reserve"));
  CHECK_THAT(told.out, Contains("out of memory on rank 1 (stage 2 of 2: 3 to head)"));
  CHECK_THAT(told.out, Contains("parallel.cut=["));
  const nlohmann::json plan = nlohmann::json::parse(planned({limit}, "--json").out);
  bool offers_cut = false;
  for (const nlohmann::json& fix : plan["fixes"]) {
    std::vector<std::string> words = fix["set"];
    offers_cut = offers_cut || words.front().starts_with("parallel.cut=");
    if (words.front().starts_with("memory.limit=")) continue;
    words.push_back(limit);
    INFO(fix["set"].dump());
    CHECK(planned(words, "--json").exit_code == 0);
  }
  CHECK(offers_cut);
  std::vector<std::string> words = {"run", folder.config(), limit, folder.output("failing")};
  words.insert(words.end(), layout.begin(), layout.end());
  const ProcessResult run = run_trainer(words);
  CHECK(run.exit_code == 3);
  CHECK_THAT(run.out + run.err, Contains("stage 2 of") && Contains("parallel.cut=["));
}

TEST_CASE("a pipeline that loses a stage ends at once, and goes on as one process from its checkpoint") {
  const PipelineFolder folder;
  bool was_sent = false;
  ProcessOptions options;
  options.on_output = [&](pid_t launcher, const std::string& out) {
    if (was_sent || out.find("\"step\":40,") == std::string::npos) return;
    std::ifstream file("/proc/" + std::to_string(launcher) + "/task/" + std::to_string(launcher) + "/children");
    pid_t child = 0, last = 0;
    while (file >> child) last = child;
    was_sent = last > 0 && kill(last, SIGKILL) == 0;
  };
  const std::vector<std::string> layout = {"parallel.pipeline=2", "parallel.micro_batches=5"};
  std::vector<std::string> words = {
      "run", folder.config(), "--json", "train.epochs=40", "checkpoint.every=10", folder.output("lost")};
  words.insert(words.end(), layout.begin(), layout.end());
  const ProcessResult lost = run_trainer(words, options);
  REQUIRE(was_sent);
  CHECK(lost.exit_code == 75);
  const ProcessResult resumed = run_trainer({"run", folder.config(), "--resume", "-q", "train.epochs=4",
                                             "checkpoint.every=10", "parallel.micro_batches=5", folder.output("lost")});
  INFO(resumed.err);
  REQUIRE(resumed.exit_code == 0);
  const ProcessResult whole = run_trainer({"run", folder.config(), "-q", "train.epochs=4", "checkpoint.every=10",
                                           "parallel.micro_batches=5", folder.output("whole")});
  REQUIRE(whole.exit_code == 0);
  for (const char* name : {"checkpoints/latest/model.safetensors", "checkpoints/latest/optimizer.safetensors"})
    CHECK(folder.file("lost", name) == folder.file("whole", name));
}
