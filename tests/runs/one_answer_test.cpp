#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/process.h"

using namespace trainer;
using nlohmann::json;

// The same question has the same answer, whichever command is asked.

namespace {

using Words = std::vector<std::string>;

json answer_of(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  words.emplace_back("--json");
  const ProcessResult result = run_trainer(words);
  INFO(result.err);
  REQUIRE((result.exit_code == 0 || result.exit_code == 4));
  return json::parse(result.out);
}

struct Question {
  std::string config, gpu, capacity;
  Words set;
};

Words target_of(const Question& question) {
  Words words = question.set;
  if (!question.gpu.empty()) words.insert(words.end(), {"--gpu", question.gpu});
  words.insert(words.end(), {"--capacity", question.capacity});
  return words;
}

Words with_word(Words words, const std::string& more) {
  words.push_back(more);
  return words;
}

const std::string made_up = "data={type: synthetic, shape: [28, 28, 1], classes: 10, samples: 3000}";

const std::vector<Question> questions = {
    {"configs/quickstart.yaml", "", "8MiB", {}},
    {"configs/quickstart.yaml", "", "12MiB", {"train.accumulation_steps=3"}},
    {"configs/quickstart.yaml", "t4", "6MiB", {"memory.allocator=auto"}},
    {"configs/mnist_cnn.yaml", "", "30MiB", {made_up, "memory.allocator=planned"}},
    {"configs/mnist_cnn.yaml", "", "40MiB", {made_up, "train.checkpointing=sqrt"}},
    {"configs/mnist_mlp.yaml", "", "8MiB", {made_up}},
};

}  // namespace

TEST_CASE("plan, plan for several targets, fit and auto tell the same largest batch, and every smaller one fits") {
  for (const Question& question : questions) {
    const Words target = target_of(question);
    const json plan = answer_of({"plan", question.config}, with_word(target, "train.batch_size=1000"));
    INFO(question.config << " " << question.capacity);
    REQUIRE(plan["fits"] == false);
    const std::int64_t largest = plan["largest_batch_size"];
    REQUIRE(largest > 0);
    Words several = with_word(target, "train.batch_size=1000");
    *(std::find(several.begin(), several.end(), "--capacity") + 1) = question.capacity + ",1KiB";
    const json targets = answer_of({"plan", question.config}, several)["targets"];
    REQUIRE(targets.size() == 2);
    CHECK(targets[1]["batch_size_that_fits"] == largest);
    CHECK(targets[0]["batch_size_that_fits"] == 0);
    const json fit = answer_of({"fit", question.config, "--max", "train.batch_size"}, target)["maximum"];
    CHECK(fit["value"] == largest);
    CHECK(fit["all_smaller_fit"] == true);
    CHECK(answer_of({"plan", question.config}, with_word(target, "train.batch_size=auto"))["batch_size"] == largest);
    for (std::int64_t size = largest; size > 0; size -= std::max<std::int64_t>(1, largest / 12)) {
      INFO(size);
      CHECK(answer_of({"plan", question.config},
                      with_word(target, "train.batch_size=" + std::to_string(size)))["fits"] == true);
    }
    const std::string more = "train.batch_size=" + std::to_string(largest + 1);
    CHECK(answer_of({"plan", question.config}, with_word(target, more))["fits"] == false);
  }
}

TEST_CASE("what fit finds is among what plan advises, or plan advises what is as good, in the same order") {
  int num_choices = 0;
  for (const Question& question : questions) {
    for (const char* batch_size : {"100", "400"}) {
      const Words target = with_word(target_of(question), std::string("train.batch_size=") + batch_size);
      const json plan = answer_of({"plan", question.config}, target);
      if (plan["fits"] == true) continue;
      const json choices = answer_of({"fit", question.config}, target)["choices"];
      const auto rank = [](const json& change) {
        const std::string numbers = change["numbers"];
        return numbers == "same_bits" ? 0 : numbers == "same_rounding" ? 1 : 2;
      };
      for (const json& choice : choices) {
        // That takes memory for speed; what is advised to a run that does not fit only takes what makes it fit.
        const Words set = choice["set"];
        if (std::find(set.begin(), set.end(), "memory.recompute_cheap=false") != set.end()) continue;
        INFO(question.config << " " << question.capacity << " " << batch_size << ": " << choice.dump() << "\n"
                             << plan["fixes"].dump(1));
        const bool is_advised = std::any_of(plan["fixes"].begin(), plan["fixes"].end(), [&](const json& fix) {
          return rank(fix) <= rank(choice) &&
                 fix["relative_step_time"].get<double>() <= 1.22 * choice["relative_step_time"].get<double>();
        });
        CHECK(is_advised);
        ++num_choices;
      }
      for (const json* changes : {&choices, &plan["fixes"]})
        CHECK(std::is_sorted(changes->begin(), changes->end(),
                             [&](const json& a, const json& b) { return rank(a) < rank(b); }));
    }
  }
  CHECK(num_choices >= 5);
}
