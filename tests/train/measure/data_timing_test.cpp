#include "engine/train/measure/data_timing.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "engine/errors.h"

using namespace trainer;
using Catch::Contains;

namespace {

/// Samples of one byte that take a while without keeping a core busy, and are counted.
class SlowSamples final : public Dataset {
 public:
  SlowSamples(std::int64_t size, double seconds, std::int64_t broken = -1)
      : Dataset({TensorType{DType::u8, Shape{1}}}, TensorType{DType::i32, Shape{}}),
        counts_(static_cast<std::size_t>(size)),
        seconds_(seconds),
        broken_(broken) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(counts_.size()); }
  void read(std::int64_t index, std::span<std::byte* const> fields) const override {
    if (index == broken_) throw DataError("sample " + std::to_string(index) + " is broken");
    ++counts_[static_cast<std::size_t>(index)];
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds_));
    *fields[0] = std::byte{1};
    std::memset(fields[1], 0, sizeof(std::int32_t));
  }
  void read_classes(std::int64_t, std::int32_t* label) const override { *label = 0; }

  std::int64_t num_read_again() const {
    std::int64_t count = 0;
    for (const std::atomic<int>& each : counts_) count += each > 1 ? 1 : 0;
    return count;
  }

 private:
  mutable std::vector<std::atomic<int>> counts_;
  double seconds_;
  std::int64_t broken_;
};

double stage_of(const DataTiming& timing, SampleStage stage) {
  return timing.stage_seconds[static_cast<std::size_t>(stage)];
}

}  // namespace

TEST_CASE("Several threads are timed beside one, on samples that were read before") {
  constexpr double sample_seconds = 0.002;
  const SlowSamples samples(100'000, sample_seconds);
  const DataTiming timing =
      time_data(samples, {.num_samples = samples.size(), .batch_size = 64, .shuffle = true, .seed = 3}, 4, 0.2);
  CHECK(timing.num_distinct >= 16);
  CHECK(timing.num_distinct < samples.size());
  // No sample beyond those of the first pass is read twice.
  CHECK(samples.num_read_again() <= timing.num_distinct);
  CHECK(samples.num_read_again() > 0);
  CHECK(timing.one_thread.num_threads == 1);
  CHECK(timing.one_thread.seconds >= 0.2);
  // Where whoever takes the batches is late, the first that is counted may have been read already.
  CHECK(timing.one_thread.samples_per_second() <= 1.25 / sample_seconds);
  CHECK(timing.all_threads.num_threads == 4);
  CHECK(timing.all_threads.samples_per_second() <= 5 / sample_seconds);
  CHECK(timing.all_threads.samples_per_second() > 1.5 * timing.one_thread.samples_per_second());
  // Reading is one stage here.
  CHECK(stage_of(timing, SampleStage::read) == Approx(1 / timing.one_thread.samples_per_second()));
  CHECK(stage_of(timing, SampleStage::decode) == 0);
  CHECK(timing.reducible_share == 0);
}

TEST_CASE("One sample, one thread and a batch larger than the data are timed, too") {
  const SlowSamples samples(1, 1e-4);
  const DataTiming timing = time_data(samples, {.num_samples = 1, .batch_size = 1000}, 1, 0.01);
  CHECK(timing.num_distinct == 1);
  CHECK(timing.one_thread.num_samples > 1);
  CHECK(timing.all_threads.num_threads == 1);
  CHECK(timing.all_threads.num_samples == timing.one_thread.num_samples);
}

TEST_CASE("A sample that cannot be read ends the timing with its error, and so does data that makes no batch") {
  const SlowSamples samples(20, 1e-5, 7);
  CHECK_THROWS_WITH(time_data(samples, {.num_samples = 20, .batch_size = 4}, 2, 0.05), Contains("sample 7 is broken"));
  const SlowSamples few(3, 1e-5);
  CHECK_THROWS_AS(time_data(few, {.num_samples = 3, .batch_size = 4, .drop_last = true}, 1, 0.01), ConfigError);
}
