#include "engine/findings/data_supply.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "datasets/dataset.h"
#include "datasets/dataset_description.h"
#include "engine/errors.h"
#include "engine/train/measure/data_timing_file.h"

namespace trainer {

double DataSupply::samples_per_second_of(int num_threads) const {
  return timing.all_threads.samples_per_second() / timing.all_threads.num_threads * num_threads;
}

int DataSupply::more_threads() const {
  if (keeps_up() || steps_use_threads || usable_threads <= timing.all_threads.num_threads) return 0;
  const double wanted = std::ceil(needed / samples_per_second_of(1));
  return static_cast<int>(std::min<double>(wanted, usable_threads));
}

bool DataSupply::reduction_helps() const {
  constexpr double worth_telling = 0.1;
  return !decodes_reduced && timing.reducible_share >= worth_telling;
}

double DataSupply::samples_per_second_kept() const {
  const double left = share_of(SampleStage::transform) + 2 * share_of(SampleStage::copy);
  constexpr double most = 1e12;  // of a file that says anything
  return left > 0 ? std::min(most, timing.all_threads.samples_per_second() / left) : 0;
}

SampleStage DataSupply::longest_stage() const {
  const auto& seconds = timing.stage_seconds;
  return static_cast<SampleStage>(std::max_element(seconds.begin(), seconds.end()) - seconds.begin());
}

double DataSupply::share_of(SampleStage stage) const {
  const auto& seconds = timing.stage_seconds;
  const double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  return sum > 0 ? seconds.at(static_cast<std::size_t>(stage)) / sum : 0;
}

std::optional<DataSupply> find_data_supply(const Experiment& experiment, const DataDescription& data,
                                           int usable_threads, const RatesProblemSink& on_problem) {
  const std::string subject = timing_subject(experiment, data, usable_threads);
  std::string path;
  try {
    path = data_timing_path(subject);
  } catch (const DataError&) {
    return std::nullopt;  // where there is no folder for caches, nothing was kept
  }
  try {
    const std::optional<KeptDataTiming> kept = read_data_timing(path, subject);
    if (!kept) return std::nullopt;
    DataSupply supply;
    supply.timing = kept->timing;
    supply.measured_at = kept->measured_at;
    supply.usable_threads = std::min<int>(usable_threads, most_workers);
    // Threads that data.memory keeps away are no remedy.
    if (experiment.data.memory > 0) supply.usable_threads = supply.timing.all_threads.num_threads;
    supply.decodes_reduced = experiment.data.reduced_decoding;
    supply.are_image_files = holds_image_files(experiment.data);
    supply.are_images_kept = experiment.data.cache != ImageCaching::none;
    return supply;
  } catch (const DataError& error) {
    on_problem(error.what());
    return std::nullopt;
  }
}

bool has_image_files(const DataConfig& config) {
  return holds_image_files(config) && missing_data_files(config).empty();
}

}  // namespace trainer
