#include "cuda/ops/slot_copies.h"

#include <catch2/catch.hpp>

#include <numeric>

#include "engine/device/aligned_memory.h"
#include "engine/errors.h"
#include "tests/cuda/capture_rules.h"
#include "tests/cuda/deferred_queues.h"

using namespace trainer;
using namespace trainer::cuda;

namespace {

/// Leaves out one of the waits.
class WithoutOneWait final : public SideStreams {
 public:
  WithoutOneWait(SideStreams& streams, int left_out) : streams_(streams), left_out_(left_out) {}

  std::int32_t make_event() override { return streams_.make_event(); }
  void record(std::int32_t event, StreamKind stream) override { streams_.record(event, stream); }
  void wait(StreamKind stream, std::int32_t event) override {
    if (num_waits_++ != left_out_) streams_.wait(stream, event);
  }
  void copy(StreamKind stream, void* destination, const void* source, std::int64_t num_bytes) override {
    streams_.copy(stream, destination, source, num_bytes);
  }
  int num_waits() const { return num_waits_; }

 private:
  SideStreams& streams_;
  const int left_out_;
  int num_waits_ = 0;
};

constexpr std::int64_t count = 257;
constexpr std::int64_t num_bytes = count * 4;

/// A kernel makes an activation; it goes out; other kernels use its memory; it comes back there; a kernel reads it.
/// Twice, the second time with other numbers, as two steps do. Returns what was read.
std::vector<float> carry(DeferredQueues& queues, SideStreams& streams) {
  HostSlots memory([](std::int64_t bytes) { return std::make_unique<AlignedMemory>(bytes); });
  SlotCopies slots(streams, memory);
  void* host = memory.reserve(0, num_bytes);
  std::vector<float> device(count, -1), read;
  for (const float first : {1.0F, 1000.0F}) {
    queues.add([&device, first] { std::iota(device.begin(), device.end(), first); });
    SlotCopy& out = slots.copy_of(0, StreamKind::to_host);
    out.start(host, device.data(), num_bytes);
    out.finish();
    queues.add([&device] { std::fill(device.begin(), device.end(), -2.0F); });
    SlotCopy& back = slots.copy_of(0, StreamKind::to_device);
    back.start(device.data(), host, num_bytes);
    back.finish();
    queues.add([&device, &read] { read.insert(read.end(), device.begin(), device.end()); });
  }
  queues.synchronize();
  return read;
}

std::vector<float> expected() {
  std::vector<float> values(2 * count);
  std::iota(values.begin(), values.begin() + count, 1.0F);
  std::iota(values.begin() + count, values.end(), 1000.0F);
  return values;
}

}  // namespace

TEST_CASE("What went out comes back, whether copies run early or late") {
  for (const CopyTiming timing : {CopyTiming::late, CopyTiming::early}) {
    DeferredQueues queues(timing);
    CHECK(carry(queues, queues) == expected());
  }
}

TEST_CASE("Every wait is needed: without any one of them the numbers are wrong") {
  DeferredQueues counted;
  WithoutOneWait whole(counted, -1);
  carry(counted, whole);
  CHECK(whole.num_waits() == 8);
  for (int left_out = 0; left_out < whole.num_waits(); ++left_out) {
    INFO("without wait " << left_out);
    bool is_wrong = false;
    for (const CopyTiming timing : {CopyTiming::late, CopyTiming::early}) {
      DeferredQueues queues(timing);
      WithoutOneWait streams(queues, left_out);
      is_wrong = is_wrong || carry(queues, streams) != expected();
    }
    CHECK(is_wrong);
  }
}

TEST_CASE("A slot's way in one direction is one object, and each direction has its own") {
  DeferredQueues queues;
  HostSlots memory([](std::int64_t bytes) { return std::make_unique<AlignedMemory>(bytes); });
  SlotCopies slots(queues, memory);
  SlotCopy& first = slots.copy_of(3, StreamKind::to_host);
  CHECK(&slots.copy_of(3, StreamKind::to_device) != &first);
  for (int slot = 4; slot < 100; ++slot) CHECK(&slots.copy_of(slot, StreamKind::to_host) != &first);
  CHECK(&slots.copy_of(3, StreamKind::to_host) == &first);
}

TEST_CASE("What CUDA would not capture is refused") {
  SECTION("a copy whose end nothing in the recording waits for") {
    CaptureRules rules;
    rules.record(0, StreamKind::kernels);
    rules.wait(StreamKind::to_host, 0);
    rules.give(StreamKind::to_host);
    rules.record(1, StreamKind::to_host);
    CHECK_THROWS_AS(rules.end(), InternalError);
    rules.wait(StreamKind::kernels, 1);
    CHECK_NOTHROW(rules.end());
  }
  SECTION("a copy in a stream that waits for nothing of the recording") {
    CaptureRules rules;
    CHECK_THROWS_AS(rules.give(StreamKind::to_device), InternalError);
  }
  SECTION("a wait for an event from before") {
    CaptureRules rules;
    CHECK_THROWS_AS(rules.wait(StreamKind::kernels, 0), InternalError);
  }
}
