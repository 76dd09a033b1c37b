#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <optional>

#include "tests/cli/process.h"

using namespace trainer;
using nlohmann::json;

namespace {

/// The entry of the plan for a step, or for the evaluation after it.
std::optional<json> planned(const json& plan, std::int64_t step, bool evaluation) {
  const std::int64_t cycle_first = plan["cycle"]["first_step"];
  const std::int64_t cycle_steps = plan["cycle"]["num_steps"];
  const std::int64_t cycle_end = plan["cycle"]["end"];
  if (cycle_steps > 0 && step >= cycle_first + cycle_steps && step < cycle_end)
    step = cycle_first + (step - cycle_first) % cycle_steps;
  for (const json& entry : plan["steps"]) {
    const std::int64_t first = entry["first_step"];
    if (entry["evaluation"] == evaluation && first <= step && step < first + entry["count"].get<std::int64_t>())
      return entry;
  }
  return std::nullopt;
}

void check_equal(const json& expected, const json& memory) {
  for (const char* counter :
       {"peak_requested", "peak_allocated", "peak_reserved", "requested", "allocated", "reserved"}) {
    INFO(counter);
    CHECK(expected[counter].get<std::int64_t>() == memory[counter].get<std::int64_t>());
  }
}

void check_plan(std::vector<std::string> words) {
  ScratchFolder folder;
  std::vector<std::string> plan_words = words;
  plan_words.insert(plan_words.begin(), "plan");
  plan_words.emplace_back("--json");
  const ProcessResult plan_result = run_trainer(plan_words);
  INFO(plan_result.err);
  REQUIRE(plan_result.exit_code == 0);
  const json plan = events_of(plan_result.out).front();

  words.insert(words.begin(), "run");
  words.insert(words.end(), {"--json", "output=" + (folder / "run")});
  const ProcessResult run_result = run_trainer(words);
  INFO(run_result.err);
  REQUIRE(run_result.exit_code == 0);
  const std::vector<json> events = events_of(run_result.out);
  std::size_t num_compared = 0;
  for (const json& event : events) {
    if (event["event"] != "step" && event["event"] != "eval") continue;
    INFO(event.dump());
    const std::optional<json> expected = planned(plan, event["step"], event["event"] == "eval");
    REQUIRE(expected.has_value());
    check_equal(*expected, event["memory"]);
    ++num_compared;
  }
  CHECK(num_compared >= 2);
  for (const char* peak : {"peak_requested", "peak_allocated", "peak_reserved"})
    CHECK(events.back()[peak].get<std::int64_t>() == plan[peak].get<std::int64_t>());
  CHECK(plan["peak"]["bytes"].get<std::int64_t>() == plan["peak_allocated"].get<std::int64_t>());
  CHECK(events.back()["peak_by_category"] == plan["by_category"]);
}

}  // namespace

TEST_CASE("the plan equals the run to the byte, step by step") {
  SECTION("odd last batch, batch norm, dropout, evaluation of its own batch size") {
    check_plan({"tests/runs/digits_cnn.yaml", "memory.limit=1GiB"});
  }
  SECTION("many epochs, which the plan does not walk one by one") {
    check_plan({"tests/runs/digits_mlp.yaml", "memory.limit=1GiB", "train.epochs=6"});
  }
  SECTION("accumulation, clipping, residual blocks") {
    check_plan({"tests/runs/residual.yaml", "memory.limit=1GiB", "train.epochs=5"});
  }
  SECTION("all samples in one batch, numeric targets") {
    check_plan({"tests/runs/csv_numeric.yaml", "memory.limit=1GiB", "train.epochs=20", "train.eval_every=7"});
  }
  SECTION("the quickstart") { check_plan({"configs/quickstart.yaml", "memory.limit=1GiB", "train.steps=30"}); }
}

TEST_CASE("the plan equals the run to the byte with expandable segments, step by step") {
  SECTION("odd last batch, batch norm, dropout, evaluation of its own batch size") {
    check_plan({"tests/runs/digits_cnn.yaml", "memory.limit=1GiB", "memory.expandable_segments=true"});
  }
  SECTION("accumulation, clipping, residual blocks") {
    check_plan({"tests/runs/residual.yaml", "memory.limit=1GiB", "train.epochs=5", "memory.expandable_segments=true"});
  }
  SECTION("all samples in one batch, numeric targets") {
    check_plan({"tests/runs/csv_numeric.yaml", "memory.limit=1GiB", "train.epochs=20", "train.eval_every=7",
                "memory.expandable_segments=true"});
  }
  SECTION("large blocks") {
    check_plan({"configs/quickstart.yaml", "memory.limit=1GiB", "train.steps=7", "train.batch_size=400",
                "train.eval_every=3", "memory.expandable_segments=true"});
  }
  SECTION("the least limit that it fits, to the page") {
    const std::vector<std::string> words = {"configs/quickstart.yaml",
                                            "train.steps=7",
                                            "train.batch_size=400",
                                            "train.eval_batch_size=360",
                                            "memory.expandable_segments=true",
                                            "memory.recompute_cheap=false"};
    const auto with_limit = [&](std::int64_t pages) {
      std::vector<std::string> limited = words;
      limited.push_back(fmt::format("memory.limit={}MiB", 2 * pages));
      return limited;
    };
    const auto fits = [&](std::int64_t pages) {
      std::vector<std::string> plan = with_limit(pages);
      plan.insert(plan.begin(), {"plan", "--quiet"});
      return run_trainer(plan).exit_code == 0;
    };
    // Scratch, and so the limit, depends on the processor.
    std::int64_t least = 500;
    REQUIRE(fits(least));
    for (std::int64_t step = 256; step > 0; step /= 2)
      if (least > step && fits(least - step)) least -= step;
    REQUIRE_FALSE(fits(least - 1));
    check_plan(with_limit(least));
    ScratchFolder folder;
    std::vector<std::string> too_little = with_limit(least - 1);
    too_little.insert(too_little.begin(), "run");
    too_little.push_back("output=" + (folder / "run"));
    CHECK(run_trainer(too_little).exit_code == 3);
  }
}

TEST_CASE("expandable segments reserve other amounts than segments of fixed sizes, and change no result") {
  const auto last_event = [](int batch_size, const std::string& word) {
    ScratchFolder folder;
    const ProcessResult result =
        run_trainer({"run", "configs/quickstart.yaml", "train.steps=3", fmt::format("train.batch_size={}", batch_size),
                     "memory.expandable_segments=" + word, "--json", "output=" + (folder / "run")});
    REQUIRE(result.exit_code == 0);
    return events_of(result.out).back();
  };
  bool differ = false;
  for (const int batch_size : {400, 1024}) {
    const json fixed = last_event(batch_size, "false");
    const json expandable = last_event(batch_size, "true");
    CHECK(fixed["loss"] == expandable["loss"]);
    CHECK(fixed["peak_requested"] == expandable["peak_requested"]);
    differ = differ || fixed["peak_reserved"] != expandable["peak_reserved"];
  }
  CHECK(differ);  // which of them do depends on the processor
}

TEST_CASE("a run under the capacity that its plan reserves runs, and under less it is out of memory") {
  for (const char* config : {"tests/runs/digits_cnn.yaml", "tests/runs/residual.yaml"}) {
    ScratchFolder folder;
    const ProcessResult plan = run_trainer({"plan", config, "--capacity", "1GiB", "--json", "train.steps=2"});
    REQUIRE(plan.exit_code == 0);
    const std::int64_t reserved = events_of(plan.out).front()["peak_reserved"];
    const auto run_under = [&](std::int64_t limit, const std::string& name) {
      return run_trainer({"run", config, "memory.limit=" + std::to_string(limit), "train.steps=2", "--quiet",
                          "output=" + (folder / name)});
    };
    CHECK(run_under(reserved, "enough").exit_code == 0);
    CHECK(run_under(1 << 16, "little").exit_code == 3);
    CHECK(run_trainer({"plan", config, "--capacity", "64KiB", "--quiet"}).exit_code == 4);
  }
}

TEST_CASE("a change that the out-of-memory report offers does fit when it is applied") {
  ScratchFolder folder;
  const ProcessResult failed = run_trainer(
      {"run", "tests/runs/out_of_memory.yaml", "memory.limit=12MiB", "--json", "output=" + (folder / "failed")});
  REQUIRE(failed.exit_code == 3);
  const json oom = events_named(events_of(failed.out), "oom").at(0);
  int num_applied = 0;
  for (const json& fix : oom["fixes"]) {
    if (!fix["fits"].get<bool>()) continue;
    std::vector<std::string> words = {"plan", "tests/runs/out_of_memory.yaml", "memory.limit=12MiB", "--json"};
    for (const json& word : fix["set"]) {
      const std::string text = word;
      words.erase(std::remove_if(words.begin(), words.end(),
                                 [&](const std::string& older) {
                                   return older.rfind(text.substr(0, text.find('=') + 1), 0) == 0;
                                 }),
                  words.end());
      words.push_back(text);
    }
    const ProcessResult result = run_trainer(words);
    INFO(fix.dump() << result.err);
    CHECK(result.exit_code == 0);
    CHECK(events_of(result.out).front()["peak_reserved"] == fix["peak_reserved"]);
    ++num_applied;
  }
  CHECK(num_applied >= 3);
}

TEST_CASE("a plan is not said to equal steps that diverge") {
  const ProcessResult result = run_trainer({"plan", "configs/quickstart.yaml", "optimizer.lr=1e30", "--verify"});
  CHECK(result.exit_code == 5);
  CHECK(result.err.find("diverges") != std::string::npos);
  CHECK(result.out.find("equals what was measured") == std::string::npos);
}
