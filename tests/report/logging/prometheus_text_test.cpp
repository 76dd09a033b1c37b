#include "engine/report/logging/prometheus_text.h"

#include <catch2/catch.hpp>
#include <limits>

using namespace trainer;
using Catch::Contains;

TEST_CASE("labels of metrics hold any text on one line") {
  CHECK(prometheus_label("plain ü") == "plain ü");
  CHECK(prometheus_label("a\"b\\c\nd") == R"(a\"b\\c\nd)");
  CHECK(prometheus_label("\x1b[31m\xff") == R"(\\x1b[31m\\xff)");
  const std::string longest(10'000, '"');
  CHECK(prometheus_label(longest).size() == 20'000);
}

TEST_CASE("metrics are told in base units, with their kind, and numbers that are not finite by name") {
  LoggedRun run;
  run.name = "r";
  run.device = "cpu";
  StepEvent step;
  step.step = 7;
  step.loss = std::numeric_limits<double>::quiet_NaN();
  step.learning_rate = std::numeric_limits<double>::infinity();
  step.seconds = 0.5;
  step.samples = 10;
  step.memory.step.reserved = std::int64_t{1} << 40;
  step.terms.count = 2;
  step.terms.values = {0.25, 0.75};
  run.step = step;
  const std::string text = prometheus_text(run);
  const std::string labels = R"({run="r",stage="train",device="cpu",rank="0"})";
  CHECK_THAT(text, Contains("\n# TYPE trainer_step gauge\ntrainer_step" + labels + " 7\n"));
  CHECK_THAT(text, Contains("\ntrainer_loss" + labels + " NaN\n"));
  CHECK_THAT(text, Contains("\ntrainer_learning_rate" + labels + " +Inf\n"));
  CHECK_THAT(text, Contains("\ntrainer_samples_per_second" + labels + " 20\n"));
  CHECK_THAT(text, Contains("\ntrainer_memory_reserved_bytes" + labels + " 1099511627776\n"));
  CHECK_THAT(text, Contains("\n# TYPE trainer_samples_total counter\n"));
  CHECK_THAT(text, Contains("rank=\"0\",term=\"2\"} 0.75\n"));
  CHECK_THAT(text, Contains("\ntrainer_running" + labels + " 1\n"));
  CHECK_THAT(text, !Contains("trainer_validation"));
  run.status = "done";
  CHECK_THAT(prometheus_text(run), Contains("\ntrainer_running" + labels + " 0\n") && Contains("status=\"done\"} 1\n"));
}
