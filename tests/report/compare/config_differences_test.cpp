#include "engine/report/compare/config_differences.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

using namespace trainer;

namespace {

std::vector<ConfigDifference> differences_of(const std::vector<std::string>& texts) {
  std::vector<Json> configs;
  for (const std::string& text : texts) configs.push_back(Json::parse(text));
  std::vector<const Json*> pointers;
  for (const Json& config : configs) pointers.push_back(config.is_null() ? nullptr : &config);
  return config_differences(pointers);
}

}  // namespace

TEST_CASE("configurations differ in the keys whose values do, with all values and none beside them") {
  const auto found =
      differences_of({R"({"seed":1,"train":{"batch_size":64,"amp":"off"},"memory":{},"output":"a"})",
                      R"({"seed":1,"train":{"batch_size":128,"amp":"off"},"memory":{"limit":4},"output":"b"})"});
  REQUIRE(found.size() == 3);
  CHECK(found[0].key == "train.batch_size");
  CHECK(found[0].texts == std::vector<std::string>{"64", "128"});
  CHECK(found[0].last_part() == "batch_size");
  CHECK_FALSE(found[0].is_name);
  CHECK(found[1].key == "memory.limit");
  CHECK_FALSE(found[1].values[0].has_value());
  CHECK(*found[1].values[1] == 4);
  CHECK(found[1].texts == std::vector<std::string>{"-", "4"});
  CHECK(found[2].key == "output");
  CHECK(found[2].is_name);
  CHECK(differences_of({"{}", "{}"}).empty());
  for (const char* const logging : {R"({"logging":{"tensorboard":"b"},"loggings":1})", R"({"loggings":1})"}) {
    const auto told = differences_of({R"({"logging":{"tensorboard":"a"},"loggings":2})", logging});
    REQUIRE(told.size() == 2);
    for (const ConfigDifference& difference : told) CHECK(difference.is_name == (difference.key != "loggings"));
  }
}

TEST_CASE("lists of one length differ item by item, others by their first item that is another") {
  const auto same_length = differences_of({R"({"model":{"layers":["relu",{"linear":{"out":10}}]}})",
                                           R"({"model":{"layers":["relu",{"linear":{"out":20}}]}})"});
  REQUIRE(same_length.size() == 1);
  CHECK(same_length[0].key == "model.layers.1.linear.out");
  CHECK(same_length[0].last_part() == "linear.out");
  const auto longer =
      differences_of({R"({"layers":["relu",{"linear":{"out":10}}]})",
                      R"({"layers":["relu",{"dropout":{"p":0.5}},{"linear":{"out":10}}]})", R"({"layers":["relu"]})"});
  REQUIRE(longer.size() == 1);
  CHECK(longer[0].texts == std::vector<std::string>{R"(2 items; 1: {"linear":{"out":10}})",
                                                    R"(3 items; 1: {"dropout":{"p":0.5}})", "1 items; 1: none"});
  const auto numbers = differences_of({R"({"betas":[0.9,0.99]})", R"({"betas":[0.9,0.999]})"});
  REQUIRE(numbers.size() == 1);
  CHECK(numbers[0].texts == std::vector<std::string>{"[0.9,0.99]", "[0.9,0.999]"});
}

TEST_CASE("what has no configuration makes no difference, and values of other kinds differ as a whole") {
  CHECK(differences_of({R"({"a":1})", "null"}).empty());
  const auto found = differences_of({R"({"loss":{"type":"mse"}})", "null", R"({"loss":["mse"]})"});
  REQUIRE(found.size() == 1);
  CHECK(found[0].texts == std::vector<std::string>{R"({"type":"mse"})", "-", R"(["mse"])"});
}
