#include "datasets/batch_reader.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

using namespace trainer;

// Sanitizers bring an operator new of their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TRAINER_COUNT_ALLOCATIONS

namespace {
std::atomic<std::int64_t> num_allocations{0};
}  // namespace

void* operator new(std::size_t size) {
  ++num_allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
#endif

namespace {

/// Sample i holds three bytes i, i + 1, i + 2; its class is i.
class CountingDataset final : public Dataset {
 public:
  explicit CountingDataset(std::int64_t size, std::int64_t fails_at = -1, std::chrono::microseconds delay = {})
      : Dataset({{DType::u8, Shape{1, 3, 1}}}, {DType::i32, Shape{}}),
        size_(size),
        fails_at_(fails_at),
        delay_(delay) {}
  std::int64_t size() const override { return size_; }
  void read_classes(std::int64_t index, std::int32_t* classes) const override {
    *classes = static_cast<std::int32_t>(index);
  }
  void read(std::int64_t index, std::span<std::byte* const> fields) const override {
    if (index == fails_at_) throw DataError("sample is damaged");
    if (delay_.count() > 0) std::this_thread::sleep_for(delay_);
    for (int i = 0; i < 3; ++i) fields[0][i] = static_cast<std::byte>(index + i);
    const std::int32_t label = class_of(index);
    std::memcpy(fields[1], &label, sizeof(label));
  }

 private:
  std::int64_t size_;
  std::int64_t fails_at_;
  std::chrono::microseconds delay_;
};

std::vector<int> classes_of(const HostBatch& batch) {
  const auto* classes = reinterpret_cast<const std::int32_t*>(batch.fields[1]);
  return {classes, classes + batch.num_samples};
}

}  // namespace

TEST_CASE("Batches read ahead are those the sampler orders, epoch after epoch") {
  const CountingDataset dataset(10);
  const Sampler sampler({10, 4, true, false, 9});
  BatchReader reader(dataset, sampler, {});
  std::vector<std::uint32_t> order;
  for (std::int64_t epoch = 0; epoch < 5; ++epoch) {
    sampler.order_of_epoch(epoch, order);
    for (std::int64_t index = 0; index < 3; ++index) {
      const HostBatch* batch = reader.next();
      REQUIRE(batch != nullptr);
      REQUIRE(batch->num_samples == (index == 2 ? 2 : 4));
      for (std::int64_t i = 0; i < batch->num_samples; ++i) {
        const auto expected = order[static_cast<std::size_t>(index * 4 + i)];
        CHECK(classes_of(*batch)[static_cast<std::size_t>(i)] == static_cast<std::int32_t>(expected));
        CHECK(std::to_integer<std::uint32_t>(batch->fields[0][3 * i + 2]) == expected + 2);
      }
    }
  }
}

TEST_CASE("Reading can start at any batch of any epoch") {
  const CountingDataset dataset(10);
  const Sampler sampler({10, 4, true, false, 9});
  BatchReader whole(dataset, sampler, {});
  for (std::int64_t start = 0; start <= 6; ++start) {
    // Both spellings of an epoch's end lead to the next epoch.
    for (const BatchPosition position : {BatchPosition{start / 3, start % 3}, BatchPosition{0, 3}}) {
      if (position == BatchPosition{0, 3} && start != 3) continue;
      BatchReader resumed(dataset, sampler, {true, position});
      BatchReader from_start(dataset, sampler, {});
      for (std::int64_t i = 0; i < start; ++i) from_start.next();
      for (int i = 0; i < 5; ++i) {
        const HostBatch* a = from_start.next();
        const HostBatch* b = resumed.next();
        CHECK(classes_of(*a) == classes_of(*b));
      }
    }
  }
}

TEST_CASE("With one buffer, a batch is read once the one before is released, and all come in order") {
  const CountingDataset dataset(10);
  const Sampler sampler({10, 4, true, false, 9});
  BatchReaderOptions options;
  options.num_buffers = 1;
  BatchReader reader(dataset, sampler, options);
  BatchReader other(dataset, sampler, {});
  for (int i = 0; i < 20; ++i) {
    const HostBatch* batch = reader.next();
    std::this_thread::sleep_for(std::chrono::milliseconds(i % 3));  // until it is released, nobody writes to it
    CHECK(classes_of(*batch) == classes_of(*other.next()));
    if (i % 4 != 3) reader.release();  // else next() does
  }
}

TEST_CASE("A single pass ends after its last batch, and stays ended") {
  const CountingDataset dataset(10);
  BatchReader reader(dataset, Sampler({10, 4, false, false, 0}), {false});
  std::vector<int> seen;
  while (const HostBatch* batch = reader.next())
    for (const int label : classes_of(*batch)) seen.push_back(label);
  CHECK(seen == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(reader.next() == nullptr);
  const CountingDataset empty(0);
  CHECK(BatchReader(empty, Sampler({0, 4, false, false, 0}), {false}).next() == nullptr);
}

TEST_CASE("A dropped last batch is not read") {
  const CountingDataset dataset(10, 9);  // the sample of the dropped batch would fail
  BatchReader reader(dataset, Sampler({10, 4, false, true, 0}), {});
  for (int i = 0; i < 6; ++i) CHECK(reader.next()->num_samples == 4);
}

TEST_CASE("A batch stays as it is until the next is asked for") {
  const CountingDataset dataset(200);
  BatchReader reader(dataset, Sampler({200, 2, false, false, 0}), {true, {}, 2});
  for (int i = 0; i < 50; ++i) {
    const HostBatch* batch = reader.next();
    std::this_thread::sleep_for(std::chrono::microseconds(200));  // the thread fills what it may
    CHECK(classes_of(*batch) == std::vector<int>{2 * i, 2 * i + 1});
  }
}

TEST_CASE("An error in the thread surfaces after the batches before it") {
  const CountingDataset dataset(10, 7);
  BatchReader reader(dataset, Sampler({10, 2, false, false, 0}), {});
  for (int i = 0; i < 3; ++i) CHECK(reader.next() != nullptr);
  CHECK_THROWS_AS(reader.next(), DataError);
  CHECK_THROWS_WITH(reader.next(), "sample is damaged");
}

namespace {

/// Sample i's class is i, and what is drawn for it the epoch; it takes as long as its number says, or fails.
class UnevenDataset final : public Dataset {
 public:
  UnevenDataset(std::int64_t size, std::vector<std::int64_t> failing = {})
      : Dataset({{DType::u8, Shape{1, 1, 1}}}, {DType::i32, Shape{}}), size_(size), failing_(std::move(failing)) {}
  std::int64_t size() const override { return size_; }
  void read_classes(std::int64_t index, std::int32_t* classes) const override {
    *classes = static_cast<std::int32_t>(index);
  }
  void read(std::int64_t index, std::span<std::byte* const> fields) const override {
    Reader(*this).read(0, index, fields);
  }
  std::unique_ptr<SampleReader> make_reader() const override { return std::make_unique<Reader>(*this); }

 private:
  class Reader final : public SampleReader {
   public:
    explicit Reader(const UnevenDataset& dataset) : dataset_(dataset) {}
    void read(std::int64_t epoch, std::int64_t index, std::span<std::byte* const> fields) override {
      std::this_thread::sleep_for(std::chrono::microseconds(index % 7 * 30));
      if (std::find(dataset_.failing_.begin(), dataset_.failing_.end(), index) != dataset_.failing_.end())
        throw DataError("sample " + std::to_string(index));
      fields[0][0] = static_cast<std::byte>(epoch);
      const auto label = static_cast<std::int32_t>(index);
      std::memcpy(fields[1], &label, sizeof(label));
    }
    void read_classes(std::int64_t /*epoch*/, std::int64_t index, std::int32_t* classes) override {
      dataset_.read_classes(index, classes);
    }

   private:
    const UnevenDataset& dataset_;
  };

  std::int64_t size_;
  std::vector<std::int64_t> failing_;
};

BatchReaderOptions with_workers(int num_workers, std::size_t num_buffers = 3) {
  BatchReaderOptions options;
  options.num_workers = num_workers;
  options.num_buffers = num_buffers;
  return options;
}

}  // namespace

TEST_CASE("Any number of workers reads the same batches in the same order, each sample in its epoch") {
  const UnevenDataset dataset(23);
  const Sampler sampler({23, 5, true, false, 4});
  for (const int num_workers : {2, 3, 8}) {
    for (const std::size_t num_buffers : {1, 2, 5}) {
      BatchReader one(dataset, sampler, {});
      BatchReader several(dataset, sampler, with_workers(num_workers, num_buffers));
      for (int batch = 0; batch < 12; ++batch) {
        const HostBatch* a = one.next();
        const HostBatch* b = several.next();
        REQUIRE(classes_of(*a) == classes_of(*b));
        for (std::int64_t i = 0; i < b->num_samples; ++i) REQUIRE(std::to_integer<int>(b->fields[0][i]) == batch / 5);
        if (batch % 3 == 0) several.release();
      }
    }
  }
}

TEST_CASE("Of several workers' failures the first in the order of samples is told, after the batches before it") {
  const UnevenDataset dataset(40, {13, 11, 19, 30});
  for (int round = 0; round < 20; ++round) {
    BatchReader reader(dataset, Sampler({40, 5, false, false, 0}), with_workers(4));
    CHECK(classes_of(*reader.next()) == std::vector<int>{0, 1, 2, 3, 4});
    CHECK(classes_of(*reader.next()) == std::vector<int>{5, 6, 7, 8, 9});
    CHECK_THROWS_WITH(reader.next(), "sample 11");
    CHECK_THROWS_WITH(reader.next(), "sample 11");
  }
}

TEST_CASE("Several workers end a single pass once") {
  const UnevenDataset dataset(11);
  BatchReaderOptions options = with_workers(4, 2);
  options.endless = false;
  BatchReader reader(dataset, Sampler({11, 4, false, false, 0}), options);
  std::vector<int> seen;
  while (const HostBatch* batch = reader.next())
    for (const int label : classes_of(*batch)) seen.push_back(label);
  CHECK(seen == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  CHECK(reader.next() == nullptr);
}

TEST_CASE("A reader with several workers can be destroyed at any moment") {
  const UnevenDataset dataset(100, {50});
  for (int round = 0; round < 60; ++round) {
    BatchReader reader(dataset, Sampler({100, 7, true, false, 1}), with_workers(1 + round % 5, 1 + round % 3));
    try {
      for (int i = 0; i < round % 7; ++i) reader.next();
    } catch (const DataError&) {
    }
    if (round % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(37 * (round % 11)));
  }
}

TEST_CASE("A reader can be destroyed at any moment") {
  const CountingDataset fast(1000);
  const CountingDataset slow(1000, -1, std::chrono::microseconds(50));
  for (int round = 0; round < 200; ++round) {
    BatchReader reader(round % 2 == 0 ? fast : slow, Sampler({1000, 5, true, false, 1}), {});
    for (int i = 0; i < round % 7; ++i) reader.next();
    if (round % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(37 * (round % 11)));
  }
  const CountingDataset failing(1000, 0);
  for (int round = 0; round < 50; ++round) BatchReader(failing, Sampler({1000, 5, false, false, 1}), {});
}

TEST_CASE("A mixed batch says of what each sample is made, with any number of workers and from any start") {
  const CountingDataset dataset(10);
  const Sampler sampler({10, 4, true, false, 9});
  BatchReaderOptions options;
  options.mixing.emplace(std::vector<TransformSpec>{{"cutmix", CutMixSpec{}}}, Pair{1, 3}, 5);
  BatchReader reader(dataset, sampler, options);
  for (std::int64_t i = 0; i < 9; ++i) {
    BatchReaderOptions resumed_options = options;
    resumed_options.start = {i / 3, i % 3};
    resumed_options.num_workers = 3;
    BatchReader resumed(dataset, sampler, resumed_options);
    const MixedSample drawn = options.mixing->draw(i / 3, i % 3);
    const HostBatch &batch = *reader.next(), &other = *resumed.next();
    REQUIRE(batch.fields.size() == 3);
    const std::vector<int> classes = classes_of(batch);
    const auto* const mixing = reinterpret_cast<const MixedSample*>(batch.fields[2]);
    for (std::int64_t sample = 0; sample < batch.num_samples; ++sample) {
      MixedSample expected = drawn;
      expected.partner = static_cast<std::int32_t>((sample + batch.num_samples - 1) % batch.num_samples);
      expected.partner_class = classes[static_cast<std::size_t>(expected.partner)];
      CHECK(mixing[sample] == expected);
      CHECK(reinterpret_cast<const MixedSample*>(other.fields[2])[sample] == expected);
      // Pixels stay as they were read.
      CHECK(std::to_integer<int>(batch.fields[0][3 * sample]) == classes[static_cast<std::size_t>(sample)]);
    }
  }
}

#ifdef TRAINER_COUNT_ALLOCATIONS
TEST_CASE("A steady reader takes nothing from the heap") {
  const CountingDataset dataset(100);
  BatchReader reader(dataset, Sampler({100, 8, true, false, 1}), {});
  for (int i = 0; i < 30; ++i) reader.next();
  const std::int64_t before = num_allocations;
  for (int i = 0; i < 1000; ++i) reader.next();
  CHECK(num_allocations == before);

  BatchReader several(dataset, Sampler({100, 8, true, false, 1}), with_workers(3));
  // A thread may begin late, with memory of its own.
  bool is_steady = false;
  for (int round = 0; round < 100 && !is_steady; ++round) {
    const std::int64_t before_round = num_allocations;
    for (int i = 0; i < 300; ++i) several.next();
    is_steady = num_allocations == before_round;
  }
  CHECK(is_steady);
}
#endif

TEST_CASE("Buffers are aligned for vector code") {
  const CountingDataset dataset(9);
  BatchReader reader(dataset, Sampler({9, 5, false, false, 1}), {});
  for (int i = 0; i < 4; ++i) {
    const HostBatch* batch = reader.next();
    CHECK(reinterpret_cast<std::uintptr_t>(batch->fields[0]) % 64 == 0);
    CHECK(reinterpret_cast<std::uintptr_t>(batch->fields[1]) % 64 == 0);
  }
}
