#include "datasets/prediction/input_batches.h"

#include <catch2/catch.hpp>

#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>

using namespace trainer;

namespace {

/// Inputs 0 … count − 1, whose samples are their numbers, f32; every fifth is bad, and each takes a while that depends
/// on it.
class CountedInputs final : public InputStream {
 public:
  CountedInputs(std::int64_t count, std::int64_t fails_at = -1) : count_(count), fails_at_(fails_at) {}

  bool next(PredictionInput& input) override {
    // Called by other threads than the test's, where Catch2 may not check.
    if (input.number != next_ || !input.error.empty() || !input.bytes.empty())
      throw std::logic_error("an input that is not as new");
    if (next_ == fails_at_) throw DataError("the stream broke");
    if (next_ == count_) return false;
    input.name = std::to_string(next_++);
    return true;
  }
  std::unique_ptr<InputReader> make_reader() const override {
    class Reader final : public InputReader {
     public:
      void read(const PredictionInput& input, std::byte* sample) override {
        std::this_thread::sleep_for(std::chrono::microseconds(input.number * 37 % 200));
        const float value = static_cast<float>(input.number) + 1;
        std::memcpy(sample, &value, sizeof(value));
        if (input.number % 5 == 4) throw DataError(input.name + " is bad");
      }
    };
    return std::make_unique<Reader>();
  }

 private:
  std::int64_t count_, fails_at_, next_ = 0;
};

float value_at(const InputBatch& batch, std::int64_t place) {
  float value = 0;
  std::memcpy(&value, batch.batch.fields[0] + place * static_cast<std::int64_t>(sizeof(float)), sizeof(value));
  return value;
}

constexpr std::int64_t batch_size = 4;

InputBatchesOptions with(int num_workers, std::size_t num_buffers) {
  return {.batch_size = batch_size, .num_buffers = num_buffers, .num_workers = num_workers, .make_memory = {}};
}

}  // namespace

TEST_CASE("inputs come once and in order, whatever the number of threads and buffers") {
  for (const int workers : {1, 2, 5}) {
    for (const std::size_t buffers : {std::size_t{1}, std::size_t{3}}) {
      for (const std::int64_t count : {0, 1, 4, 5, 8, 43}) {
        INFO(workers << " workers, " << buffers << " buffers, " << count << " inputs");
        CountedInputs stream(count);
        InputBatches batches(stream, {DType::f32, Shape{1}}, with(workers, buffers));
        std::vector<PredictionInput> others(batch_size);
        std::int64_t number = 0;
        while (InputBatch* const batch = batches.next()) {
          REQUIRE(batch->batch.num_samples == std::min(batch_size, count - number));
          for (std::int64_t i = 0; i < batch_size; ++i) {
            const bool is_there = i < batch->batch.num_samples;
            const bool is_good = is_there && number % 5 != 4;
            // What has an error, or is lacking, is zero.
            CHECK(value_at(*batch, i) == (is_good ? static_cast<float>(number) + 1 : 0.0F));
            if (!is_there) continue;
            const PredictionInput& input = batch->inputs[static_cast<std::size_t>(i)];
            CHECK(input.number == number);
            CHECK(input.name == std::to_string(number));
            CHECK(input.error == (is_good ? "" : input.name + " is bad"));
            ++number;
          }
          std::swap(others, batch->inputs);
          if (number % 8 == 0) batches.release();
        }
        CHECK(number == count);
        CHECK(batches.next() == nullptr);
      }
    }
  }
}

TEST_CASE("a stream that breaks is told behind the batches before it") {
  CountedInputs stream(100, 9);
  InputBatches batches(stream, {DType::f32, Shape{1}}, with(3, 2));
  std::int64_t count = 0;
  const auto read_all = [&] {
    while (const InputBatch* const batch = batches.next()) count += batch->batch.num_samples;
  };
  CHECK_THROWS_WITH(read_all(), "the stream broke");
  CHECK(count == 9);
}

TEST_CASE("batches may be left before their end") {
  CountedInputs stream(1000);
  InputBatches batches(stream, {DType::f32, Shape{1}}, with(4, 3));
  CHECK(batches.next() != nullptr);
}
