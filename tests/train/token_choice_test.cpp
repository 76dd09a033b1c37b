#include <catch2/catch.hpp>

#include <cmath>
#include <limits>
#include <map>

#include "engine/errors.h"
#include "engine/train/token_choice.h"

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

/// How often each token is drawn of `count` numbers that lie evenly in [0, 1).
std::map<TokenId, double> shares(const TokenChoice& choice, const std::vector<float>& logits, int count = 100000) {
  TokenChooser chooser(choice);
  std::map<TokenId, double> drawn;
  for (int i = 0; i < count; ++i) drawn[chooser.choose(logits, (i + 0.5) / count)] += 1.0 / count;
  return drawn;
}

void check_shares(const std::map<TokenId, double>& found, const std::map<TokenId, double>& expected) {
  CHECK(found.size() == expected.size());
  for (const auto& [token, share] : expected) {
    INFO("token " << token);
    REQUIRE(found.contains(token));
    CHECK(found.at(token) == Approx(share).margin(2e-5));
  }
}

std::vector<float> logs(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)) + 3);
  return logits;
}

}  // namespace

TEST_CASE("a token is drawn as often as its probability says") {
  const std::vector<float> logits = logs({0.1, 0.4, 0.2, 0.3});
  check_shares(shares({}, logits), {{0, 0.1}, {1, 0.4}, {2, 0.2}, {3, 0.3}});
  check_shares(shares({.temperature = 0.5}, logits),
               {{0, 0.01 / 0.3}, {1, 0.16 / 0.3}, {2, 0.04 / 0.3}, {3, 0.09 / 0.3}});
  check_shares(shares({.temperature = 0}, logits, 10), {{1, 1}});
  check_shares(shares({.top_k = 2}, logits), {{1, 4.0 / 7}, {3, 3.0 / 7}});
  check_shares(shares({.top_k = 9}, logits), {{0, 0.1}, {1, 0.4}, {2, 0.2}, {3, 0.3}});
  check_shares(shares({.top_p = 0.65}, logits), {{1, 4.0 / 7}, {3, 3.0 / 7}});
  check_shares(shares({.top_p = 0.75}, logits), {{1, 4.0 / 9}, {3, 3.0 / 9}, {2, 2.0 / 9}});
  check_shares(shares({.top_p = 0}, logits, 10), {{1, 1}});
  // Of the three likeliest, 4, 3 and 2 of 9, the first two reach 0.7.
  check_shares(shares({.top_k = 3, .top_p = 0.7}, logits), {{1, 4.0 / 7}, {3, 3.0 / 7}});
}

TEST_CASE("equal logits are kept together, and ordered by their numbers") {
  const std::vector<float> logits = {1, 5, 5, 5, 0};
  check_shares(shares({.top_k = 1}, logits), {{1, 1.0 / 3}, {2, 1.0 / 3}, {3, 1.0 / 3}});
  TokenChooser greedy({.temperature = 0});
  CHECK(greedy.choose(logits, 0.99) == 1);
  TokenChooser chooser(TokenChoice{});
  CHECK(chooser.choose(logits, 0) == 1);
  CHECK(chooser.choose(logits, std::nextafter(1.0, 0.0)) == 4);
}

TEST_CASE("a token that cannot come is not drawn, and what is no distribution is told") {
  constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  check_shares(shares({}, {-infinity, 2, 2}), {{1, 0.5}, {2, 0.5}});
  check_shares(shares({.temperature = 1e-3}, {3e38F, -3e38F}, 10), {{0, 1}});
  for (const std::vector<float>& logits : {std::vector<float>{0, nan}, {infinity, 0}, {-infinity, -infinity}, {}})
    CHECK_THROWS_WITH(TokenChooser(TokenChoice{}).choose(logits, 0.5), Contains("logits are not finite"));
}
