#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

#include "cuda/kernels/begin_pass.h"

namespace trainer::cuda {
namespace {

/// Bytes that lie `offset` behind an address of 16 bytes' alignment, between others that must stay.
class PlacedBytes {
 public:
  PlacedBytes(std::int64_t num_bytes, std::size_t offset, unsigned char first, unsigned char step)
      : offset_(16 + offset), size_(static_cast<std::size_t>(num_bytes)), bytes_((size_ + 48) / 16 + 1) {
    for (std::size_t i = 0; i < size_; ++i) data()[i] = static_cast<unsigned char>(first + step * i);
  }
  unsigned char* data() { return bytes_.front().values + offset_; }
  std::vector<unsigned char> inside() { return {data(), data() + size_}; }
  bool outside_is_zero() {
    unsigned char* const all = bytes_.front().values;
    for (std::size_t i = 0; i < bytes_.size() * 16; ++i)
      if ((i < offset_ || i >= offset_ + size_) && all[i] != 0) return false;
    return true;
  }

 private:
  struct alignas(16) Sixteen {
    unsigned char values[16] = {};
  };
  std::size_t offset_, size_;
  std::vector<Sixteen> bytes_;
};

}  // namespace

TEST_CASE("a pass begins with its scalars and with copies of any length and alignment") {
  for (const std::int64_t num_bytes : {0, 1, 15, 16, 17, 31, 33, 4095, 4096, 70001}) {
    for (const std::size_t from_offset : {0u, 1u, 8u, 15u}) {
      for (const std::size_t to_offset : {0u, 1u, 8u, 15u}) {
        INFO(num_bytes << " bytes from +" << from_offset << " to +" << to_offset);
        PlacedBytes from(num_bytes, from_offset, 3, 7), to(num_bytes, to_offset, 0, 0);
        PlacedBytes second_from(num_bytes / 3, to_offset, 5, 11), second_to(num_bytes / 3, from_offset, 0, 0);
        const StepScalars scalars{.seed = 11, .pass = 12, .gradient_scale = 0.25F, .learning_rate = 0.5, .update = 13};
        StepScalars stored;
        begin_pass(scalars, &stored, {to.data(), from.data(), num_bytes},
                   {second_to.data(), second_from.data(), num_bytes / 3}, nullptr);
        CHECK((stored.seed == 11 && stored.pass == 12 && stored.gradient_scale == 0.25F &&
               stored.learning_rate == 0.5 && stored.update == 13));
        CHECK((to.inside() == from.inside()));
        CHECK((second_to.inside() == second_from.inside()));
        CHECK(to.outside_is_zero());
        CHECK(second_to.outside_is_zero());
      }
    }
  }
}

TEST_CASE("a pass that stages nothing stores its scalars") {
  StepScalars stored;
  begin_pass({.update = 4}, &stored, {}, {}, nullptr);
  CHECK(stored.update == 4);
}

TEST_CASE("fed steps begin with the scalars and copies of their places, and end with results there") {
  constexpr std::int64_t input_offset = 128, first_bytes = 5000, second_offset = 5056, second_bytes = 72;
  constexpr std::int64_t result_offset = 5312, stride = 5376;
  struct alignas(64) Line {
    std::byte bytes[64] = {};
  };
  std::vector<Line> memory(3 * stride / sizeof(Line));
  const FeedPlaces places{memory.front().bytes, 3, stride, input_offset, result_offset};
  std::int64_t num_steps = 0;
  StepScalars stored;
  std::vector<std::byte> first(first_bytes), second(second_bytes);
  for (int step = 0; step < 7; ++step) {
    std::byte* const place = places.first + step % 3 * stride;
    const StepScalars scalars{.seed = 3, .pass = static_cast<std::uint32_t>(step), .update = 10 + step};
    std::memcpy(place, &scalars, sizeof(scalars));
    for (std::int64_t i = 0; i < second_offset + second_bytes; ++i)
      place[input_offset + i] = static_cast<std::byte>(i * 7 + step);
    begin_fed_step(places, &num_steps, &stored, {first.data(), 0, first_bytes},
                   {second.data(), second_offset, second_bytes}, nullptr);
    CHECK(num_steps == step);
    CHECK((stored.seed == 3 && stored.pass == scalars.pass && stored.update == scalars.update));
    CHECK(std::equal(first.begin(), first.end(), place + input_offset));
    CHECK(std::equal(second.begin(), second.end(), place + input_offset + second_offset));
    const double statistics[5] = {step + 0.5, 1, 2, 3, 4}, scale[3] = {step + 9.0, 8, 7};
    end_fed_step(places, &num_steps, {statistics, sizeof(statistics)}, {scale, sizeof(scale)}, nullptr);
    CHECK(num_steps == step + 1);
    CHECK(std::memcmp(place + result_offset, statistics, sizeof(statistics)) == 0);
    CHECK(std::memcmp(place + result_offset + sizeof(statistics), scale, sizeof(scale)) == 0);
  }
}

}  // namespace trainer::cuda
