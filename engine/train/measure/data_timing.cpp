#include "engine/train/measure/data_timing.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "datasets/batch_reader.h"

namespace trainer {
namespace {

using ReadingClock = std::chrono::steady_clock;

double seconds_since(ReadingClock::time_point begin) {
  return std::chrono::duration<double>(ReadingClock::now() - begin).count();
}

/// Some samples of a dataset by their numbers in it; the readers of a look at its stages tell `times`.
class ChosenSamples final : public Dataset {
 public:
  ChosenSamples(const Dataset& all, std::vector<std::uint32_t> chosen, StageTimes* times)
      : Dataset(all.input_types(), all.target_type()), all_(all), chosen_(std::move(chosen)), times_(times) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(chosen_.size()); }
  void read(std::int64_t index, std::span<std::byte* const> fields) const override { all_.read(at(index), fields); }
  void read_classes(std::int64_t index, std::int32_t* classes) const override { all_.read_classes(at(index), classes); }
  std::unique_ptr<SampleReader> make_reader() const override { return std::make_unique<Reader>(*this); }

 private:
  class Reader final : public SampleReader {
   public:
    explicit Reader(const ChosenSamples& samples) : samples_(samples), reader_(samples.all_.make_reader()) {
      if (samples.times_ != nullptr) reader_->time_stages(samples.times_);
    }
    void read(std::int64_t epoch, std::int64_t index, std::span<std::byte* const> fields) override {
      reader_->read(epoch, samples_.at(index), fields);
    }
    void read_classes(std::int64_t epoch, std::int64_t index, std::int32_t* classes) override {
      reader_->read_classes(epoch, samples_.at(index), classes);
    }

   private:
    const ChosenSamples& samples_;
    std::unique_ptr<SampleReader> reader_;
  };

  std::int64_t at(std::int64_t index) const { return chosen_[static_cast<std::size_t>(index)]; }

  const Dataset& all_;
  const std::vector<std::uint32_t> chosen_;
  StageTimes* const times_;
};

/// Reads an epoch, or what of it takes so long.
ReadingRate read_once(const Dataset& dataset, SamplerOptions order, int num_threads, double seconds) {
  order.batch_size = std::min<std::int64_t>(order.batch_size, 4 * num_threads);
  ReadingRate rate{.num_threads = num_threads};
  const ReadingClock::time_point begin = ReadingClock::now();
  BatchReader reader(dataset, Sampler(order), {.endless = false, .num_workers = num_threads});
  while (rate.seconds < seconds) {
    const HostBatch* const batch = reader.next();
    if (batch == nullptr) break;
    rate.num_samples += batch->num_samples;
    rate.seconds = seconds_since(begin);
  }
  return rate;
}

ReadingRate time_reading(const Dataset& dataset, const SamplerOptions& order, int num_threads, double seconds) {
  ReadingRate rate{.num_threads = num_threads};
  BatchReader reader(dataset, Sampler(order), {.num_workers = num_threads});
  reader.next();  // the threads run, and have the memory that they need
  const ReadingClock::time_point begin = ReadingClock::now();
  do {
    rate.num_samples += reader.next()->num_samples;
    rate.seconds = seconds_since(begin);
  } while (rate.seconds < seconds);
  return rate;
}

std::int64_t bytes_from_storage() {
  constexpr std::int64_t block_bytes = 512;
  rusage usage{};
  return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_inblock * block_bytes : 0;
}

}  // namespace

DataTiming time_data(const Dataset& dataset, const SamplerOptions& order, int num_threads, double seconds) {
  const ReadingRate first = read_once(dataset, order, num_threads, seconds);
  std::vector<std::uint32_t> chosen;
  Sampler(order).order_of_epoch(0, chosen);
  chosen.resize(static_cast<std::size_t>(first.num_samples));

  DataTiming timing;
  timing.num_distinct = first.num_samples;
  StageTimes times;
  const ChosenSamples samples(dataset, chosen, nullptr), timed_samples(dataset, chosen, &times);
  SamplerOptions timed_order = order;
  timed_order.num_samples = first.num_samples;
  timed_order.drop_last = false;
  // A batch of one thread is to be a tenth of the time at most.
  const double of_a_thread = first.samples_per_second() / num_threads;
  timed_order.batch_size = std::clamp<std::int64_t>(static_cast<std::int64_t>(of_a_thread * seconds / 10), 1,
                                                    std::max<std::int64_t>(order.batch_size, 1));
  const std::int64_t bytes_before = bytes_from_storage();
  timing.one_thread = time_reading(timed_samples, timed_order, 1, seconds);
  timing.all_threads = num_threads > 1 ? time_reading(samples, timed_order, num_threads, seconds) : timing.one_thread;
  timing.storage_bytes = bytes_from_storage() - bytes_before;
  if (times.num_samples > 0) {
    const auto count = static_cast<double>(times.num_samples);
    for (std::size_t stage = 0; stage < num_sample_stages; ++stage)
      timing.stage_seconds[stage] = times.seconds[stage] / count;
    timing.reducible_share = static_cast<double>(times.num_reducible) / count;
  } else {
    timing.stage_seconds[static_cast<std::size_t>(SampleStage::read)] = 1 / timing.one_thread.samples_per_second();
  }
  return timing;
}

}  // namespace trainer
