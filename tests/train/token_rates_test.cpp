#include <catch2/catch.hpp>

#include "engine/config/load_experiment.h"
#include "engine/train/run_progress.h"
#include "engine/train/token_count.h"

using namespace trainer;

TEST_CASE("tokens are counted where samples are tokens, and MFU where the peak is known") {
  TokenRates rates;
  CHECK_FALSE(rates.count(4, 8, 2).has_value());
  rates.tokens_per_sample = 16;
  rates.flops_per_sample = 1e6;
  std::optional<TokenCount> count = rates.count(4, 12, 2);
  REQUIRE(count);
  CHECK(count->trained == 64);
  CHECK(count->seen == 192);
  CHECK_FALSE(count->mfu.has_value());
  rates.peak_flops_per_second = 8e6;
  count = rates.count(4, 12, 2);
  CHECK(count->mfu == 0.25);  // 4 samples of 1 MFLOP in 2 s at 8 MFLOP/s
  CHECK_FALSE(rates.count(4, 12, 0)->mfu.has_value());
}

TEST_CASE("a sample has as many tokens as its input, of a text, a file of tokens or synthetic ones alone") {
  DataDescription data;
  data.inputs.emplace_back().type = {DType::i32, {64}};
  DataConfig config;
  config.type = DataType::tokens;
  CHECK(tokens_of_sample(config, data) == 64);
  config.type = DataType::text;
  CHECK(tokens_of_sample(config, data) == 64);
  config.type = DataType::synthetic;
  CHECK(tokens_of_sample(config, data) == 64);
  config.shape = {28, 28};
  CHECK(tokens_of_sample(config, data) == 0);
  config.type = DataType::arrays;
  CHECK(tokens_of_sample(config, data) == 0);
}
