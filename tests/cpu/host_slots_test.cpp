#include "engine/device/host_slots.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <new>

#include "engine/device/aligned_memory.h"
#include "engine/errors.h"

using namespace trainer;

namespace {

HostSlots ordinary_slots() {
  return HostSlots([](std::int64_t num_bytes) { return std::make_unique<AlignedMemory>(num_bytes); });
}

}  // namespace

TEST_CASE("A slot keeps its address for every request that it is large enough for") {
  HostSlots slots = ordinary_slots();
  std::byte* whole = slots.reserve(0, 1000);
  CHECK(slots.reserve(0, 1000) == whole);
  CHECK(slots.reserve(0, 1) == whole);
  CHECK(slots.held_bytes() == 1000);
}

TEST_CASE("A slot that becomes larger leaves earlier requests where they were") {
  HostSlots slots = ordinary_slots();
  std::byte* small = slots.reserve(0, 7);
  std::byte* large = slots.reserve(0, 1021);
  CHECK(large != small);
  CHECK(slots.reserve(0, 7) == small);
  CHECK(slots.reserve(0, 8) == large);
  CHECK(slots.held_bytes() == 1028);
}

TEST_CASE("Slots do not share memory, and begin with zeros") {
  HostSlots slots = ordinary_slots();
  std::byte* first = slots.reserve(0, 257);
  std::fill(first, first + 257, std::byte{0xFF});
  std::byte* second = slots.reserve(1, 257);
  CHECK(std::all_of(second, second + 257, [](std::byte byte) { return byte == std::byte{0}; }));
}

TEST_CASE("A host without memory for a slot is told with what to change, and is not out of the device's memory") {
  HostSlots slots([](std::int64_t num_bytes) -> std::unique_ptr<HostMemory> {
    if (num_bytes == 1) throw DeviceError("the system locks no more");
    throw std::bad_alloc();
  });
  CHECK_THROWS_WITH(slots.reserve(0, 1), Catch::Contains("the system locks no more") &&
                                             Catch::Contains("name fewer layers in memory.offload"));
  CHECK_THROWS_AS(slots.reserve(0, 2), DeviceError);
  CHECK(slots.held_bytes() == 0);
}
