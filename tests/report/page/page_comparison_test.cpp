#include "engine/report/page/page_comparison.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

namespace trainer {
namespace {

Json compared_plan(std::int64_t activation, const Json& layers) {
  return {{"by_category", {{"parameter", 100}, {"activation", activation}}}, {"by_layer", layers}};
}

std::int64_t sum_of_growth(const Json& rows) {
  std::int64_t sum = 0;
  for (const Json& row : rows) sum += row.at("growth").get<std::int64_t>();
  return sum;
}

}  // namespace

TEST_CASE("What grew between plans is sorted by growth, adds up, and has what only one of them holds") {
  const Json first = compared_plan(900, Json::parse(R"([{"layer":"a","bytes":600},{"layer":"b","bytes":400}])"));
  const Json second = compared_plan(
      2'400, Json::parse(R"([{"layer":"a","bytes":500},{"layer":"c","bytes":1700},{"layer":"d","bytes":300}])"));
  const Json growth = plan_growth(first, second);
  CHECK(growth.at("by_category").front().at("name") == "activation");
  CHECK(sum_of_growth(growth.at("by_category")) == 1'500);
  CHECK(sum_of_growth(growth.at("by_layer")) == 1'500);
  std::vector<std::string> names;
  for (const Json& row : growth.at("by_layer")) names.push_back(row.at("name").get<std::string>());
  CHECK(names == std::vector<std::string>{"c", "d", "a", "b"});
  CHECK(growth.at("by_layer").back().at("second") == 0);
}

TEST_CASE("Keys that differ are told with the value of each configuration") {
  const std::vector<Json> configs = {
      Json::parse(
          R"({"name":"a","train":{"batch_size":32,"amp":"off"},"model":{"layers":["relu",{"linear":{"out":4}}]}})"),
      Json::parse(
          R"({"name":"a","train":{"batch_size":64,"amp":"off"},"model":{"layers":["relu",{"linear":{"out":8}}]}})"),
      Json::parse(R"({"name":"a","train":{"batch_size":32},"model":{"layers":["relu",{"linear":{"out":4}}]}})")};
  const Json rows = config_rows(configs);
  REQUIRE(rows.size() == 3);
  CHECK(rows[0] == Json::parse(R"({"key":"train.batch_size","values":["32","64","32"]})"));
  CHECK(rows[1] == Json::parse(R"({"key":"train.amp","values":["off","off",null]})"));
  CHECK(rows[2] == Json::parse(R"({"key":"model.layers.1.linear.out","values":["4","8","4"]})"));
  CHECK(config_rows({configs[0], configs[0]}).empty());
  const Json longer = config_rows(
      {Json::parse(R"({"layers":["relu",{"linear":4}]})"), Json(nullptr), Json::parse(R"({"layers":[{"linear":4}]})")});
  CHECK(longer == Json::parse(R"([{"key":"layers","values":["2 items; 0: relu",null,"1 items; 0: {\"linear\":4}"]}])"));
}

}  // namespace trainer
