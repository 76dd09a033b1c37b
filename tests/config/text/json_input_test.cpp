#include "engine/config/text/json_input.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

using namespace trainer;
using nlohmann::json;

TEST_CASE("JSON that is nested deeper than any that trainer writes is none") {
  const auto nested = [](int depth) {
    const auto count = static_cast<std::size_t>(depth);
    return std::string(count, '[') + std::string(count, ']');
  };
  CHECK(parse_json<json>(nested(deepest_json)));
  CHECK_FALSE(parse_json<json>(nested(deepest_json + 1)));
  CHECK_FALSE(parse_json<json>(nested(100'000)));
  CHECK_FALSE(parse_json<json>(std::string(100'000, '[')));
  std::string maps;
  for (int i = 0; i < 100'000; ++i) maps += "{\"a\":";
  CHECK_FALSE(parse_json<nlohmann::ordered_json>(maps));
  // Brackets within text are none.
  CHECK(parse_json<json>("{\"a\\\"\": \"" + std::string(10'000, '[') + "\"}"));
  CHECK(parse_json<json>("\"" + std::string(10'000, '{') + "\\\\\""));
  CHECK_FALSE(parse_json<json>(""));
  CHECK_FALSE(parse_json<json>("{} {}"));
  CHECK_FALSE(parse_json<json>("{\"a\": 1e999}"));
  CHECK_FALSE(parse_json<json>("\"\xff\""));
}

TEST_CASE("a value of another type, out of range or not there is refused by its key") {
  const json parsed = *parse_json<json>(
      R"({"n": {"big": 18446744073709551615, "low": -3, "half": 1.5, "far": 1e300}, "t": "a\u001bb", "list": [1, "x"],)"
      R"( "two": "a\nb\tc", "second": "\u009b", "nothing": null})");
  const JsonInput<json> input(parsed);
  const JsonInput<json> numbers = input.at("n");
  CHECK_THROWS_WITH(numbers.at("big").integer(),
                    "'n.big' is 18446744073709551615, where an integer of at least 0 belongs");
  CHECK_THROWS_WITH(numbers.at("low").integer(), "'n.low' is -3, where an integer of at least 0 belongs");
  CHECK_THROWS_WITH(numbers.at("low").integer(0, 7), "'n.low' is -3, where an integer from 0 to 7 belongs");
  CHECK(numbers.at("low").integer(-3) == -3);
  CHECK_THROWS_AS(numbers.at("half").integer(), JsonMistake);
  CHECK_THROWS_AS(numbers.at("far").integer(), JsonMistake);
  CHECK_THROWS_WITH(numbers.at("far").number(0, 1), "'n.far' is 1e+300, where a number from 0 to 1 belongs");
  CHECK(numbers.at("half").number() == 1.5);
  CHECK_THROWS_WITH(numbers.at("none"), "'n.none' is missing");
  CHECK_THROWS_WITH(input.at("list").at("none"), "'list' is [1,\"x\"], where an object belongs");
  CHECK_THROWS_WITH(input.at("list").items()[1].integer(), "'list.1' is \"x\", where an integer of at least 0 belongs");
  CHECK_THROWS_WITH(input.at("nothing").boolean(), "'nothing' is null, where true or false belongs");
  CHECK_THROWS_AS(input.at("t").text(), JsonMistake);
  CHECK_THROWS_AS(input.at("t").scalar(), JsonMistake);
  CHECK_THROWS_AS(input.at("second").text(), JsonMistake);
  CHECK(input.at("two").text() == "a\nb\tc");
  CHECK_FALSE(input.find("none"));
}
