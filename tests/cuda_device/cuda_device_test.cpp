#include "cuda/device/cuda_device.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <numeric>

#include "cuda/device/kernel_images.h"
#include "tests/cuda_device/skipped_without_gpu.h"

using namespace trainer;
using namespace trainer::cuda;

namespace {

/// Memory of the device and of the host side by side, given back at the end.
class Buffer {
 public:
  Buffer(Device& device, MemorySource& source, std::int64_t num_bytes)
      : device_(device),
        source_(source),
        num_bytes_(num_bytes),
        host_(device.make_host_memory(num_bytes)),
        address_(source.acquire(num_bytes)) {
    REQUIRE(address_ != nullptr);
  }
  ~Buffer() { source_.release(address_, num_bytes_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* address() const { return address_; }
  std::byte* host() { return host_->data(); }
  std::int64_t num_bytes() const { return num_bytes_; }
  /// The device's bytes equal `value`, all of them.
  bool holds(std::byte value) {
    std::memset(host(), 0x5A, static_cast<std::size_t>(num_bytes_));
    device_.copy_to_host(host(), address_, num_bytes_);
    device_.synchronize();
    return std::all_of(host(), host() + num_bytes_, [&](std::byte byte) { return byte == value; });
  }

 private:
  Device& device_;
  MemorySource& source_;
  std::int64_t num_bytes_;
  std::unique_ptr<HostMemory> host_;
  void* address_;
};

}  // namespace

TEST_CASE("every kernel of the build is known, to be loaded before the first step") { CHECK(num_kernels() >= 20); }

TEST_CASE("a GPU tells itself and its memory") {
  const auto device = device_or_skip();
  if (device == nullptr) return;
  CHECK(device->kind() == "cuda");
  CHECK(!device->name().empty());
  CHECK(device->available_bytes() > 0);
  CHECK(device->available_bytes() < device->total_bytes());
  const std::vector<NamedBytes> outside = device->outside_allocator();
  REQUIRE(!outside.empty());
  CHECK(outside.front().name == "CUDA context");
  const std::int64_t sum =
      std::accumulate(outside.begin(), outside.end(), std::int64_t{0},
                      [](std::int64_t total, const NamedBytes& part) { return total + part.num_bytes; });
  CHECK(sum == device->used_bytes());
}

TEST_CASE("used bytes follow what is acquired and released") {
  const auto device = device_or_skip();
  if (device == nullptr) return;
  constexpr std::int64_t num_bytes = std::int64_t{256} << 20;
  const std::int64_t before = device->used_bytes();
  const auto source = device->make_memory_source(num_bytes);
  void* segment = source->acquire(num_bytes);
  REQUIRE(segment != nullptr);
  CHECK(device->used_bytes() == before + num_bytes);
  CHECK(device->ask_used_bytes() == before + num_bytes);
  source->release(segment, num_bytes);
  CHECK(device->used_bytes() == before);
  CHECK(device->ask_used_bytes() == before);
}

TEST_CASE("a GPU maps pages of a range and unmaps them") {
  const auto device = device_or_skip();
  if (device == nullptr) return;
  const auto source = device->make_memory_source(std::int64_t{64} << 20);
  const std::int64_t granule = source->granule_bytes();
  REQUIRE(granule == std::int64_t{2} << 20);
  char* range = static_cast<char*>(source->reserve_range(32 * granule));
  for (int round = 0; round < 3; ++round) {
    REQUIRE(source->map(range, 10 * granule));
    REQUIRE(source->map(range + 10 * granule, 10 * granule));
    REQUIRE(source->map(range + 20 * granule, granule));
    device->fill_zero(range, 21 * granule);
    device->synchronize();
    source->unmap(range + 10 * granule, 10 * granule);
    REQUIRE(source->map(range + 10 * granule, 10 * granule));
    device->fill_zero(range + 10 * granule, 11 * granule);
    source->unmap(range, 20 * granule);
    source->unmap(range + 20 * granule, granule);
  }
  CHECK(source->held() == 0);
  source->release_range(range, 32 * granule);
}

TEST_CASE("a batch that was copied ahead is there when the pass begins, and the next waits until it was taken") {
  const auto device = device_or_skip();
  if (device == nullptr) return;
  const auto source = device->make_memory_source(std::int64_t{1} << 30);
  constexpr std::int64_t num_bytes = std::int64_t{64} << 20;
  Buffer staged(*device, *source, num_bytes);
  Buffer taken(*device, *source, num_bytes);
  for (int round = 1; round <= 8; ++round) {
    std::memset(staged.host(), round, num_bytes);
    const Transfer in{staged.address(), staged.host(), num_bytes};
    device->copy_ahead({&in, 1});
    const Transfer take{taken.address(), staged.address(), num_bytes};
    device->begin_pass({.pass = static_cast<std::uint32_t>(round)}, {&take, 1});
    device->finish_copy_ahead();
    // The next batch is on its way while this one is looked at.
    std::memset(staged.host(), 0x77, num_bytes);
    device->copy_ahead({&in, 1});
    CHECK(taken.holds(static_cast<std::byte>(round)));
    device->finish_copy_ahead();
  }
}

TEST_CASE("a mark is over when what was queued before it is done") {
  const auto device = device_or_skip();
  if (device == nullptr) return;
  const auto source = device->make_memory_source(std::int64_t{1} << 30);
  Buffer buffer(*device, *source, 1 << 20);
  std::vector<std::int64_t> marks;
  for (int i = 0; i < 40; ++i) {
    std::memset(buffer.host(), i, 1 << 20);
    device->copy_to_device(buffer.address(), buffer.host(), 1 << 20);
    marks.push_back(device->set_mark());
    device->wait_for(marks.back());
  }
  CHECK(buffer.holds(std::byte{39}));
  // The last sixteen, in any order, and older ones.
  for (const int which : {39, 24, 31, 0}) device->wait_for(marks[static_cast<std::size_t>(which)]);
}

TEST_CASE("a recording does again what was queued, and nothing while it is recorded") {
  const auto device = device_or_skip();
  if (device == nullptr) return;
  const auto source = device->make_memory_source(std::int64_t{1} << 30);
  Buffer buffer(*device, *source, 1 << 20);
  std::memset(buffer.host(), 3, 1 << 20);
  device->copy_to_device(buffer.address(), buffer.host(), 1 << 20);
  device->synchronize();
  std::string obstacle;
  const auto recording = device->record([&] { device->fill_zero(buffer.address(), buffer.num_bytes()); }, obstacle);
  REQUIRE(recording != nullptr);
  CHECK(obstacle.empty());
  CHECK(buffer.holds(std::byte{3}));
  for (int round = 0; round < 3; ++round) {
    recording->replay();
    CHECK(buffer.holds(std::byte{0}));
    std::memset(buffer.host(), 9, 1 << 20);
    device->copy_to_device(buffer.address(), buffer.host(), 1 << 20);
    CHECK(buffer.holds(std::byte{9}));
  }
}

TEST_CASE("fed steps read what the host wrote before they were started, and write what it reads behind a mark") {
  const auto device = device_or_skip();
  if (device == nullptr) return;
  const auto source = device->make_memory_source(std::int64_t{1} << 30);
  constexpr std::int64_t num_bytes = 60000;
  constexpr int num_places = 5, at_once = 2;
  Buffer buffer(*device, *source, num_bytes);
  const auto feed = device->make_step_feed({.num_places = num_places, .input_bytes = num_bytes, .result_bytes = 64});
  REQUIRE(feed != nullptr);
  const FedInput input{buffer.address(), 0, num_bytes};
  const FedResult results[2] = {{buffer.address(), 40},
                                {static_cast<std::byte*>(buffer.address()) + num_bytes - 24, 24}};
  std::string obstacle;
  const auto recording = device->record(
      [&] {
        for (int i = 0; i < at_once; ++i) {
          feed->begin_step({&input, 1});
          feed->end_step(results);
        }
      },
      obstacle);
  REQUIRE(recording != nullptr);
  for (int step = 0; step < 200; step += at_once) {
    for (int i = 0; i < at_once; ++i)
      std::memset(feed->input((step + i) % num_places), (step + i) % 251, static_cast<std::size_t>(num_bytes));
    recording->replay();
    device->wait_for(device->set_mark());
    for (int i = 0; i < at_once; ++i) {
      const std::byte* const told = feed->results((step + i) % num_places);
      const auto expected = static_cast<std::byte>((step + i) % 251);
      CHECK(std::all_of(told, told + 64, [&](std::byte value) { return value == expected; }));
    }
  }
}

TEST_CASE("what cannot be recorded is told, and the device goes on") {
  const auto device = device_or_skip();
  if (device == nullptr) return;
  const auto source = device->make_memory_source(std::int64_t{1} << 30);
  Buffer buffer(*device, *source, 1 << 20);
  std::string obstacle;
  CHECK(device->record([&] { device->synchronize(); }, obstacle) == nullptr);
  CHECK_THAT(obstacle, Catch::Contains("while a step is recorded"));
  CHECK_THROWS_AS(device->record([] { throw DataError("of the caller"); }, obstacle), DataError);
  device->fill_zero(buffer.address(), buffer.num_bytes());
  CHECK(buffer.holds(std::byte{0}));
  CHECK(device->record([&] { device->fill_zero(buffer.address(), buffer.num_bytes()); }, obstacle) != nullptr);
}
