#include <catch2/catch.hpp>
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

}  // namespace trainer::cuda
