#include "cuda/library/timing_memory.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <map>

#include "engine/errors.h"

using namespace trainer;
using namespace trainer::cuda;

namespace {

struct Filled {
  std::size_t num_bytes = 0;
  cudaStream_t stream = nullptr;
};
struct FakeMemory {
  std::size_t room = 1000;
  std::map<void*, std::size_t> taken;
  std::map<void*, Filled> filled;
};
FakeMemory* fake = nullptr;

const TimingCalls fake_timing_calls = {
    .allocate =
        [](void** address, std::size_t num_bytes) {
          if (num_bytes > fake->room) return cudaErrorMemoryAllocation;
          fake->room -= num_bytes;
          *address = std::malloc(num_bytes);
          fake->taken[*address] = num_bytes;
          return cudaSuccess;
        },
    .free =
        [](void* address) {
          fake->room += fake->taken.at(address);
          fake->taken.erase(address);
          std::free(address);
          return cudaSuccess;
        },
    .fill =
        [](void* address, int byte, std::size_t num_bytes, cudaStream_t stream) {
          std::memset(address, byte, num_bytes);
          fake->filled[address] = {num_bytes, stream};
          return cudaSuccess;
        },
};

}  // namespace

TEST_CASE("what is timed is filled on the stream that it is timed on, which another would not wait for") {
  FakeMemory memory_of_test;
  fake = &memory_of_test;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): a name for a stream
  auto* const stream = reinterpret_cast<cudaStream_t>(std::uintptr_t{7});
  MemoryChanges changes;
  {
    TimingMemory memory(fake_timing_calls, stream, changes);
    for (const std::int64_t num_bytes : {400, 0, 16}) {
      void* const address = memory.try_take(num_bytes);
      REQUIRE(address != nullptr);
      CHECK(fake->filled.at(address).stream == stream);
      CHECK(fake->filled.at(address).num_bytes == fake->taken.at(address));
      CHECK(static_cast<std::int64_t>(fake->taken.at(address)) >= num_bytes);
      CHECK(*static_cast<const unsigned char*>(address) == 0x3C);
    }
    CHECK(memory.try_take(900) == nullptr);
    CHECK(fake->taken.size() == 3);
    CHECK(changes.held() == 417);
  }
  CHECK(changes.held() == 0);
  CHECK(changes.num_begun() == 7);
  CHECK(changes.num_ended() == 7);
  CHECK(fake->taken.empty());
  CHECK(fake->room == 1000);
}
