#include "engine/philox.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <set>

namespace trainer::test {

namespace {
using Words = std::array<std::uint32_t, 4>;
}

TEST_CASE("Philox gives the known answers of Random123") {
  // tests/kat_vectors of https://github.com/DEShawResearch/random123, philox4x32 with 10 rounds.
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
        Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("A stream places element, stream and step in the counter, and the seed in the key") {
  // The third known answer again, through PhiloxStream.
  const PhiloxStream stream{.seed = 0x299f31d0a4093822, .stream = 0x13198a2e, .step = 0x03707344};
  const std::uint64_t block = 0x85a308d3243f6a88;
  CHECK(stream.words(block) == Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
  const PhiloxStream zero;
  const Words first = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  for (std::uint64_t element = 0; element < 4; ++element) CHECK(zero.word(element) == first[element]);
  CHECK(zero.word(4) == zero.words(1)[0]);
  CHECK(zero.word(4) != zero.word(0));
}

TEST_CASE("Streams that differ in seed, stream or step differ in their words") {
  std::set<Words> seen;
  for (std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 32})
    for (std::uint32_t stream : {0u, 1u})
      for (std::uint32_t step : {0u, 1u}) seen.insert(PhiloxStream{seed, stream, step}.words(7));
  CHECK(seen.size() == 12);
}

TEST_CASE("Uniform numbers lie in [0, 1), with the mean and variance of the uniform distribution") {
  const PhiloxStream stream{.seed = 3, .stream = 1, .step = 4};
  const int count = 100000;
  double sum = 0, sum_of_squares = 0;
  for (int i = 0; i < count; ++i) {
    const float value = stream.uniform(static_cast<std::uint64_t>(i));
    if (!(value >= 0.0F && value < 1.0F)) FAIL("outside [0, 1): " << value);
    sum += value;
    sum_of_squares += double{value} * value;
  }
  const double mean = sum / count;
  // Five standard errors each: sqrt(1/12/n) and sqrt(1/180/n).
  CHECK(std::abs(mean - 0.5) < 5 * std::sqrt(1.0 / 12 / count));
  CHECK(std::abs(sum_of_squares / count - mean * mean - 1.0 / 12) < 5 * std::sqrt(1.0 / 180 / count));
  // 24 bits are exact in a float: the highest is 1 - 2^-24.
  CHECK(PhiloxStream{}.uniform(0) == static_cast<float>(0x6627e8) / 16777216.0F);
}

}  // namespace trainer::test
