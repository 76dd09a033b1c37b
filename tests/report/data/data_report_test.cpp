#include <fmt/format.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <nlohmann/json.hpp>

#include "datasets/memory_dataset.h"
#include "engine/findings/data_survey.h"
#include "engine/report/data/data_report.h"

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

/// Grey pixels, two a sample, and a class each.
LoadedData pixels_with_classes(const std::vector<std::array<int, 2>>& pixels, const std::vector<std::int32_t>& labels,
                               std::int64_t num_classes) {
  std::vector<std::byte> samples;
  for (const auto& pair : pixels)
    for (const int value : pair) samples.push_back(static_cast<std::byte>(value));
  std::vector<std::byte> targets(labels.size() * sizeof(std::int32_t));
  std::memcpy(targets.data(), labels.data(), targets.size());
  LoadedData data;
  const TensorType sample{DType::u8, Shape{1, 2, 1}}, target{DType::i32, Shape{}};
  data.train = std::make_shared<MemoryDataset>(sample, target, std::move(samples), std::move(targets));
  InputDescription input;
  input.type = sample;
  data.description.inputs = {input};
  data.description.target = target;
  data.description.num_outputs = num_classes;
  data.description.num_train = static_cast<std::int64_t>(labels.size());
  return data;
}

LoadedData three_samples() { return pixels_with_classes({{0, 255}, {51, 51}, {102, 51}}, {0, 1, 1}, 2); }

std::string report_of(const LoadedData& data, const DataConfig& config = {}) {
  return data_report({config, data, survey_data(data, 1, 100), "", 0}, {});
}

}  // namespace

TEST_CASE("a survey has the mean and the deviation of pixels, and counts classes") {
  const DataSurvey survey = survey_data(three_samples(), 1, 100);
  CHECK(survey.num_surveyed == 3);
  REQUIRE(survey.channels.size() == 1);
  // Of 0, 1, 0.2, 0.2, 0.4, 0.2.
  CHECK(survey.channels[0].mean == Approx(1.0 / 3));
  CHECK(survey.channels[0].std == Approx(0.3197221));
  CHECK(survey.channels[0].least == 0);
  CHECK(survey.channels[0].most == Approx(1));
  CHECK(survey.train_counts == std::vector<std::int64_t>{1, 2});
  CHECK(survey.validation_counts.empty());
  CHECK(survey.num_left_out == 0);
}

TEST_CASE("a survey of some samples still counts the classes of all") {
  const DataSurvey survey = survey_data(three_samples(), 1, 1);
  CHECK(survey.num_surveyed == 1);
  CHECK(survey.train_counts == std::vector<std::int64_t>{1, 2});
  CHECK(chosen_samples(100, 3, 7).size() == 7);
  CHECK(chosen_samples(100, 3, 7) == chosen_samples(100, 3, 7));
  CHECK(chosen_samples(100, 3, 7) != chosen_samples(100, 4, 7));
  CHECK(chosen_samples(5, 3, 7) == std::vector<std::int64_t>{0, 1, 2, 3, 4});
}

TEST_CASE("numbers of samples and targets are told by their range") {
  DataConfig config;
  config.type = DataType::synthetic;
  config.shape = {5};
  config.samples = 50;
  config.target_type = TaskTarget::numeric;
  config.classes = 2;
  const LoadedData data = load_data(config, 1);
  const DataSurvey survey = survey_data(data, 1, 50);
  CHECK(survey.channels.empty());
  CHECK(survey.train_counts.empty());
  REQUIRE(survey.targets.size() == 2);
  double sum = 0, least = 1e30, most = -1e30;
  for (std::int64_t i = 0; i < 50; ++i) {
    std::array<float, 5> input{};
    std::array<float, 2> target{};
    data.train->read(
        i, std::array{reinterpret_cast<std::byte*>(input.data()), reinterpret_cast<std::byte*>(target.data())});
    sum += target[1];
    for (const float value : input) {
      least = std::min<double>(least, value);
      most = std::max<double>(most, value);
    }
  }
  CHECK(survey.targets[1].mean == Approx(sum / 50));
  CHECK(survey.numbers.least == least);
  CHECK(survey.numbers.most == most);
  CHECK_THAT(data_report({config, data, survey, "", 0}, {}),
             Contains("each f32 5") && Contains("2 numbers") && Contains("  target 1") && Contains("of 50 samples"));
}

TEST_CASE("the report has the key that normalises, the classes and what is uneven about them") {
  LoadedData data = three_samples();
  data.preprocessing.classes = {"cat", "dog"};
  const std::string report = report_of(data);
  CHECK_THAT(report, Contains("  training    3 samples, each u8 1×2×1\n") && Contains("  validation  none\n") &&
                         Contains("one of 2 classes") && Contains("normalize: {mean: [0.3333], std: [0.3197]}\n"));
  CHECK_THAT(report, Contains("cat           1  33.3 %") && Contains("dog           2  66.7 %"));
  CHECK_THAT(report, !Contains("note"));

  data = pixels_with_classes(std::vector<std::array<int, 2>>(12, {7, 7}), {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 2);
  CHECK_THAT(report_of(data), Contains("'0' has 11 times as many training samples as '1': loss.class_weights") &&
                                  Contains("a channel is the same everywhere"));
  data = pixels_with_classes({{1, 2}, {3, 4}}, {0, 2}, 3);
  CHECK_THAT(report_of(data), Contains("no training samples of '1'"));
  data = pixels_with_classes({{1, 2}, {3, 4}}, {0, -100}, 30);
  CHECK_THAT(report_of(data), Contains("1 target that the loss ignores") && Contains("  and 10 classes more\n"));
}

TEST_CASE("the same stands in JSON") {
  LoadedData data = three_samples();
  data.preprocessing.classes = {"cat", "dog"};
  data.remarks = {"1 file that is no image is left out"};
  const auto json = nlohmann::json::parse(data_json({{}, data, survey_data(data, 1, 2), "a.png", 2}));
  CHECK(json["event"] == "data");
  CHECK(json["train_samples"] == 3);
  CHECK(json["shape"] == std::vector<int>{1, 2, 1});
  CHECK(json["surveyed"] == 2);
  CHECK(json["classes"][1] == nlohmann::json{{"name", "dog"}, {"train", 2}});
  CHECK(json["channels"].size() == 1);
  CHECK(json["remarks"][0] == "1 file that is no image is left out");
  CHECK(json["sheet"] == "a.png");
}
