#include "tests/described_events/described_events.h"

#include <catch2/catch.hpp>
#include <string>

namespace trainer {

TEST_CASE("What tests hold events against finds what is missing, too much, of another type or out of range") {
  const auto evaluation = [](const std::string& rest) {
    return R"({"event":"checkpoint","step":1,"path":"a")" + rest + "}";
  };
  CHECK(undescribed(evaluation(R"(,"seconds":0.5)")).empty());
  CHECK(undescribed(evaluation("")) == R"(checkpoint lacks "seconds")");
  CHECK(undescribed(evaluation(R"(,"seconds":"x")")) == R"(checkpoint.seconds is "x")");
  CHECK(undescribed(evaluation(R"(,"seconds":1,"more":1)")) == "checkpoint.more is not described");
  CHECK(undescribed(R"({"event":"checkpoint","step":-1,"path":"a","seconds":1})") == "checkpoint.step is -1, too low");
  CHECK(undescribed(R"({"event":"nothing"})") == R"(no event is called "nothing")");
  CHECK(undescribed("{") == "it is not JSON");
  const std::string good = evaluation(R"(,"seconds":1)") + "\n";
  CHECK(undescribed_lines("words\n" + good + good + R"({"event":)").empty());
  CHECK_FALSE(undescribed_lines(good + R"({"event":"x"})" + "\n").empty());
}

}  // namespace trainer
