#include "engine/report/prediction/prediction_rows.h"

#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>

using namespace trainer;

namespace {

PredictionOutputs outputs_with(PredictedKind kind, std::vector<std::string> names) {
  PredictionOutputs outputs;
  outputs.kind = kind;
  outputs.names = std::move(names);
  return outputs;
}

PredictionInput named(const std::string& name, const std::string& error = "") {
  PredictionInput input;
  input.name = name;
  input.error = error;
  return input;
}

}  // namespace

TEST_CASE("classes are told with all probabilities, or the likeliest alone") {
  const PredictionOutputs outputs = outputs_with(PredictedKind::classes, {"cat", "a, \"b\"", "eel"});
  const std::vector<double> values = {0.25, 0.5, 0.25};
  const PredictionInput input = named("x.png"), bad = named("y.png", "y.png: broken, \"all\" of it");
  CHECK(prediction_csv_header(outputs, {}) == "input,class,probability,p(cat),\"p(a, \"\"b\"\")\",p(eel),error\n");
  CHECK(prediction_csv_row(outputs, {}, {.input = input, .values = values}, "") ==
        "x.png,\"a, \"\"b\"\"\",0.5,0.25,0.5,0.25,\n");
  CHECK(prediction_csv_row(outputs, {}, {.input = bad}, "") == "y.png,,,,,,\"y.png: broken, \"\"all\"\" of it\"\n");
  const PredictionRowOptions two{.top = 2}, many{.top = 9};
  CHECK(prediction_csv_header(outputs, two) == "input,class,probability,class_2,probability_2,error\n");
  CHECK(prediction_csv_row(outputs, two, {.input = input, .values = values}, "") ==
        "x.png,\"a, \"\"b\"\"\",0.5,cat,0.25,\n");
  CHECK(prediction_csv_header(outputs, many) ==
        "input,class,probability,class_2,probability_2,class_3,probability_3,error\n");

  const nlohmann::json json =
      nlohmann::json::parse(prediction_json_row(outputs, {}, {.input = input, .values = values}, ""));
  CHECK(json ==
        nlohmann::json::parse(R"({"event": "prediction", "input": "x.png", "class": "a, \"b\"", "probability": 0.5,
      "probabilities": {"cat": 0.25, "a, \"b\"": 0.5, "eel": 0.25}, "error": null})"));
  const nlohmann::json top =
      nlohmann::json::parse(prediction_json_row(outputs, two, {.input = input, .values = values}, ""));
  CHECK(top["top"] ==
        nlohmann::json::parse(R"([{"class": "a, \"b\"", "probability": 0.5}, {"class": "cat", "probability": 0.25}])"));
  CHECK(!top.contains("probabilities"));
  const nlohmann::json failed = nlohmann::json::parse(prediction_json_row(outputs, two, {.input = bad}, ""));
  CHECK(failed["class"].is_null());
  CHECK(failed["top"].is_null());
  CHECK(failed["error"] == bad.error);
}

TEST_CASE("labels are those of half or more") {
  const PredictionOutputs outputs = outputs_with(PredictedKind::labels, {"a", "b", "c"});
  const std::vector<double> values = {0.5, 0.49, 0.75}, none = {0, 0, 0};
  const PredictionInput input = named("x");
  CHECK(prediction_csv_header(outputs, {}) == "input,labels,p(a),p(b),p(c),error\n");
  CHECK(prediction_csv_row(outputs, {}, {.input = input, .values = values}, "") == "x,a|c,0.5,0.49,0.75,\n");
  CHECK(prediction_csv_row(outputs, {}, {.input = input, .values = none}, "") == "x,,0,0,0,\n");
  const auto json = nlohmann::json::parse(prediction_json_row(outputs, {}, {.input = input, .values = values}, ""));
  CHECK(json["labels"] == nlohmann::json::array({"a", "c"}));
  CHECK(json["probabilities"]["b"].get<float>() == 0.49F);
}

TEST_CASE("numbers are told by their names, in the fewest digits of f32") {
  const PredictionOutputs outputs = outputs_with(PredictedKind::numbers, {"price", "size"});
  const std::vector<double> values = {0.1, 1e9};
  const PredictionInput input = named("t.csv:2");
  CHECK(prediction_csv_header(outputs, {}) == "input,price,size,error\n");
  CHECK(prediction_csv_row(outputs, {}, {.input = input, .values = values}, "") == "t.csv:2,0.1,1000000000,\n");
  const auto json = nlohmann::json::parse(prediction_json_row(outputs, {}, {.input = input, .values = values}, ""));
  CHECK(json["numbers"]["size"] == 1e9);
  const std::vector<double> far = {1e300, 1};
  const auto told = nlohmann::json::parse(prediction_json_row(outputs, {}, {.input = input, .values = far}, ""));
  CHECK(told["numbers"]["price"].is_null());
}

TEST_CASE("masks are told by their file") {
  const PredictionOutputs outputs = outputs_with(PredictedKind::class_map, {"a", "b"});
  const PredictionInput input = named("x.png"), bad = named("y.png", "broken");
  CHECK(prediction_csv_header(outputs, {}) == "input,mask,error\n");
  CHECK(prediction_csv_row(outputs, {}, {.input = input}, "m/x.png") == "x.png,m/x.png,\n");
  CHECK(prediction_csv_row(outputs, {}, {.input = bad}, "") == "y.png,,broken\n");
  CHECK(nlohmann::json::parse(prediction_json_row(outputs, {}, {.input = input}, "m/x.png"))["mask"] == "m/x.png");
}

TEST_CASE("of a text its loss is told, and the likeliest tokens behind it") {
  PredictionOutputs outputs = outputs_with(PredictedKind::next_token, {"a", "\\n", ", \"b\""});
  outputs.num_logits = 4;  // the last one is none of the tokenizer's
  const std::vector<double> values = {0.125, 0.5, 0.25};
  const PredictionInput input = named("x.txt"), bad = named("y.txt:2", "y.txt:2: is empty");
  const PredictionRowOptions three{.top = 3}, many{.top = 9};
  const PredictedInput told{.input = input, .values = values, .text = {.num_tokens = 7, .loss = 0.5}};
  CHECK(prediction_csv_header(outputs, {}) == "input,tokens,loss,perplexity,next,probability,error\n");
  CHECK(prediction_csv_row(outputs, {}, told, "") == "x.txt,7,0.5,1.6487212,\\n,0.5,\n");
  CHECK(prediction_csv_header(outputs, many) ==
        "input,tokens,loss,perplexity,next,probability,next_2,probability_2,next_3,probability_3,error\n");
  CHECK(prediction_csv_row(outputs, three, told, "") ==
        "x.txt,7,0.5,1.6487212,\\n,0.5,\", \"\"b\"\"\",0.25,a,0.125,\n");
  CHECK(prediction_csv_row(outputs, {}, {.input = bad}, "") == "y.txt:2,,,,,,y.txt:2: is empty\n");
  CHECK(prediction_csv_row(outputs, {}, {.input = input, .values = values, .text = {.num_tokens = 1}}, "") ==
        "x.txt,1,,,\\n,0.5,\n");

  CHECK(nlohmann::json::parse(prediction_json_row(outputs, {.top = 2}, told, "")) ==
        nlohmann::json::parse(R"({"event": "prediction", "input": "x.txt", "tokens": 7, "loss": 0.5,
      "perplexity": 1.6487212, "next": [{"token": 1, "text": "\\n", "probability": 0.5},
      {"token": 2, "text": ", \"b\"", "probability": 0.25}], "error": null})"));
  CHECK(nlohmann::json::parse(prediction_json_row(outputs, {}, {.input = bad}, "")) ==
        nlohmann::json::parse(R"({"event": "prediction", "input": "y.txt:2", "tokens": null, "loss": null,
      "perplexity": null, "next": null, "error": "y.txt:2: is empty"})"));

  // Without a tokenizer by their numbers.
  outputs.names.clear();
  const std::vector<double> all = {0.125, 0.25, 0, 0.625};
  const PredictedInput numbered{.input = input, .values = all, .text = {.num_tokens = 1}};
  CHECK(prediction_csv_row(outputs, {.top = 2}, numbered, "") == "x.txt,1,,,3,0.625,1,0.25,\n");
  const nlohmann::json json = nlohmann::json::parse(prediction_json_row(outputs, {}, numbered, ""));
  CHECK(json["next"] == nlohmann::json::parse(R"([{"token": 3, "text": null, "probability": 0.625}])"));
  CHECK((json["loss"].is_null() && json["perplexity"].is_null() && json["tokens"] == 1));
}
