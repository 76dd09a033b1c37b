#include "engine/report/run/evaluation_report.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/report/report_samples.h"

using namespace trainer;
using Catch::Contains;

namespace {

EvaluationFindings sample_evaluation() {
  EvaluationFindings findings;
  findings.experiment_name = "animals";
  findings.config_path = "runs/animals";
  findings.device_kind = "cpu";
  findings.device_name = "a CPU";
  findings.weights = "runs/animals/checkpoints/step-00000010/model.safetensors";
  findings.class_names = {"cat, black", "dog", "\"bird\"", "fish"};
  findings.capacity = 1 << 30;
  findings.batch_size = 4;
  EvalEvent& evaluation = findings.run.evaluation;
  evaluation.loss = 0.5;
  evaluation.accuracy = 0.75;
  evaluation.samples = 8;
  evaluation.seconds = 2;
  // True cats, dogs, birds; no fish, for which one dog was taken.
  evaluation.counted = metrics_of_confusion({3, 1, 0, 0, 0, 2, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0}, 4, -100);
  findings.run.worst = {{.index = 5, .loss = 3.25, .target = 1, .predicted = 3, .probability = 0.9},
                        {.index = 2, .loss = 1.5, .target = 0, .predicted = 1, .probability = 0.5}};
  findings.worst = {{105, "images/dog/7.png"}, {102, "images/cat/2.png"}};
  return findings;
}

}  // namespace

TEST_CASE("precision, recall and F1 of classes are those of scikit-learn, and nothing where there are none") {
  const std::vector<ClassScores> scores = class_scores(sample_evaluation().run.evaluation.counted);
  REQUIRE(scores.size() == 4);
  CHECK(scores[0].num_true == 4);
  CHECK(*scores[0].precision == 1);
  CHECK(*scores[0].recall == Approx(0.75));
  CHECK(*scores[0].f1 == Approx(6.0 / 7));
  CHECK(*scores[1].precision == Approx(2.0 / 3));
  CHECK(*scores[1].recall == Approx(2.0 / 3));
  CHECK(*scores[2].f1 == 1);
  CHECK(scores[3].num_true == 0);
  CHECK(*scores[3].precision == 0);
  CHECK_FALSE(scores[3].recall);
  CHECK(*scores[3].f1 == 0);
  CHECK(class_scores({}).empty());
}

TEST_CASE("an evaluation is told with its classes, mistakes and the samples that cost most") {
  for (const int width : {100, 80, 60}) {
    const std::string text = evaluation_report(sample_evaluation(), {false, width});
    INFO(text);
    for (const std::string& line : lines_of(text)) CHECK(display_width(line) <= static_cast<std::size_t>(width));
    for (const char* part : {"loss 0.5000", "accuracy 75.00 %", "cat, black", "66.67 %", "true \\ guessed", "3.2500",
                             "The 2 samples of the highest loss", "90.00 %"})
      CHECK_THAT(text, Contains(part));
  }
  CHECK_THAT(evaluation_report(sample_evaluation(), {false, 100}), Contains("images/dog/7.png"));
}

TEST_CASE("of very many classes those of the lowest F1 are listed") {
  EvaluationFindings findings = sample_evaluation();
  std::vector<std::int64_t> counts(100 * 100, 0);
  for (std::size_t c = 0; c < 100; ++c) counts[c * 100 + c] = 10;
  counts[77 * 100 + 77] = 1;
  counts[77 * 100 + 78] = 9;
  findings.run.evaluation.counted = metrics_of_confusion(counts, 100, -100);
  const std::string text = evaluation_report(findings, {false, 100});
  CHECK_THAT(text, Contains("Of 100 classes the 20 of the lowest F1") &&
                       Contains("77               10   100.00 %   10.00 %   18.18 %"));
  CHECK_THAT(text, !Contains("\n  99 "));
}

TEST_CASE("the confusion matrix as CSV has a line for each true class, with names quoted where they must be") {
  CHECK(confusion_csv(sample_evaluation()) ==
        "true\\predicted,\"cat, black\",dog,\"\"\"bird\"\"\",fish\n"
        "\"cat, black\",3,1,0,0\n"
        "dog,0,2,0,1\n"
        "\"\"\"bird\"\"\",0,0,1,0\n"
        "fish,0,0,0,0\n");
}

TEST_CASE("the event evaluation has all of it") {
  const auto told = nlohmann::json::parse(evaluation_json(sample_evaluation()));
  CHECK(told["event"] == "evaluation");
  CHECK(told["loss"] == 0.5);
  CHECK(told["top5"].is_null());
  CHECK(told["samples_per_second"] == 4.0);
  CHECK(told["classes"][0]["name"] == "cat, black");
  CHECK(told["classes"][3]["recall"].is_null());
  CHECK(told["confusion"][1] == nlohmann::json({0, 2, 0, 1}));
  CHECK(told["worst"][0] == nlohmann::json({{"index", 5},
                                            {"number", 105},
                                            {"file", "images/dog/7.png"},
                                            {"loss", 3.25},
                                            {"target", 1},
                                            {"predicted", 3},
                                            {"probability", 0.9}}));
}
