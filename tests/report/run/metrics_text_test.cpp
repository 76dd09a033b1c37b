#include "engine/report/run/metrics_text.h"

#include <catch2/catch.hpp>

#include <limits>

#include "engine/report/run/event_json.h"
#include "engine/report/run/run_summary.h"

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

/// Of so many classes, class c taken for c + 1 c times.
CountedMetrics mistakes(std::int64_t classes) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(classes * classes));
  for (std::int64_t c = 0; c < classes; ++c) {
    counts[static_cast<std::size_t>(c * classes + c)] = 9;
    counts[static_cast<std::size_t>(c * classes + (c + 1) % classes)] += c;
  }
  return metrics_of_confusion(std::move(counts), classes, -100);
}

}  // namespace

TEST_CASE("metrics are told by name, shares in percent") {
  CountedMetrics counted;
  counted.mean_iou = 0.61234;
  counted.dice = 0.7;
  CHECK(metrics_text(0.9, std::nullopt, counted) == "accuracy 90.00 %, mean IoU 61.23 %, dice 70.00 %");
  CountedMetrics errors;
  errors.mae = 0.0123456;
  errors.r2 = 0.987654;
  CHECK(metrics_text(std::nullopt, std::nullopt, errors) == "MAE 0.01235, R² 0.9877");
  CountedMetrics tokens;
  tokens.perplexity = 23.4567;
  CHECK(metrics_text(0.5, std::nullopt, tokens) == "accuracy 50.00 %, perplexity 23.46");
  tokens.bits_per_byte = 1.23456;
  CHECK(metrics_text(0.5, std::nullopt, tokens) == "accuracy 50.00 %, perplexity 23.46, 1.235 bits a byte");
  CHECK(metrics_text(std::nullopt, std::nullopt, {}).empty());
}

TEST_CASE("a summary shows a small confusion matrix whole") {
  EndEvent end;
  end.status = "done";
  end.loss = 0.5;
  end.accuracy = 0.75;
  end.counted = mistakes(3);
  end.terms = {.values = {0.25, 0.5}, .count = 2};
  const std::string text = run_summary(end, Metric::mean_iou, "", {});
  CHECK_THAT(text, Contains("  accuracy    75.00 %, mean IoU "));
  CHECK_THAT(text, Contains("loss 0.5000 on the validation data\n"));
  CHECK_THAT(text, Contains("  terms       0.2500 + 0.5000, before their weights\n"));
  CHECK_THAT(text, Contains("  true \\ guessed  0  1  2      IoU\n"
                            "               0  9  0  0  81.82 %\n"
                            "               1  0  9  1  90.00 %\n"
                            "               2  2  0  9  75.00 %\n"));
}

TEST_CASE("of a large confusion matrix the mistakes that were made most are shown") {
  EndEvent end;
  end.status = "done";
  end.loss = 0.5;
  end.counted = mistakes(30);
  end.best_value = 0.5;
  end.best_step = 3;
  const std::string text = run_summary(end, Metric::dice, "", {});
  CHECK_THAT(text, Contains("  class  taken for  times  IoU of the class\n     29          0     29"));
  CHECK_THAT(text, Contains("  19 more kinds of mistake; all are in the event `end`\n"));
  CHECK_THAT(text, Contains("dice 50.00 % at step 3"));
  CHECK_THAT(event_json(end), Contains(R"("confusion_matrix":[[9,0,)"));
}

TEST_CASE("events tell what an evaluation counted, and nothing of what it did not") {
  EvalEvent event;
  event.counted = metrics_of_confusion({2, 0, 0, 2, 2, 0, 0, 0, 0}, 3, -100);
  event.terms = {.values = {0.25, std::numeric_limits<double>::quiet_NaN()}, .count = 2};
  const std::string told = event_json(event);
  CHECK_THAT(told, Contains(R"("losses":[0.25,null])"));
  CHECK_THAT(told, Contains(R"("mean_iou":0.5,"dice":)"));
  CHECK_THAT(told, Contains(R"("class_iou":[0.5,0.5,null])"));
  CHECK_THAT(told, !Contains("mae") && !Contains("confusion_matrix"));
  CHECK_THAT(event_json(EvalEvent{}), !Contains("losses") && !Contains("iou") && !Contains("r2"));
  StepEvent step;
  step.terms = {.values = {0.25, 0.5}, .count = 2};
  CHECK_THAT(event_json(step), Contains(R"(,"losses":[0.25,0.5]})"));
}
