#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/config/experiment.h"
#include "engine/findings/known_rates.h"
#include "engine/graph/data_description.h"
#include "engine/train/measure/data_timing.h"

namespace trainer {

/// How fast this machine's threads prepare the training samples, as `trainer bench CONFIG --data` measured it, against
/// how fast training steps take them.
struct DataSupply {
  DataTiming timing;
  std::int64_t measured_at = 0;  ///< seconds since 1970
  double needed = 0;             ///< samples a second of training steps that never wait
  int usable_threads = 1;
  bool steps_use_threads = false;  ///< the steps are computed on this machine's CPU too
  bool decodes_reduced = false;    ///< data.reduced_decoding
  bool are_image_files = false;    ///< samples are decoded from files
  bool are_images_kept = false;    ///< data.cache

  bool keeps_up() const { return timing.all_threads.samples_per_second() >= needed; }
  /// Of the time that training then takes, how much it waits.
  double waiting_share() const { return keeps_up() ? 0 : 1 - timing.all_threads.samples_per_second() / needed; }
  /// Threads that would do, or as many as may be used where that is not enough, each as fast as those that were
  /// measured; 0: more would not help.
  int more_threads() const;
  /// Samples a second of so many such threads.
  double samples_per_second_of(int num_threads) const;
  /// Whether data.reduced_decoding would make a difference.
  bool reduction_helps() const;
  /// Samples a second, about, where data.cache keeps images: what is neither read nor decoded, and a copy more.
  double samples_per_second_kept() const;
  /// The stage that takes the most of a sample's time, and its share.
  SampleStage longest_stage() const;
  double share_of(SampleStage stage) const;
};

/// What was measured of this data on this machine; nothing where nothing was. A file that cannot be used is told to
/// `on_problem`. What the steps need is not set.
std::optional<DataSupply> find_data_supply(const Experiment& experiment, const DataDescription& data,
                                           int usable_threads, const RatesProblemSink& on_problem);

/// Whether samples are decoded from image files that are there, so that how fast they are read is worth measuring.
bool has_image_files(const DataConfig& config);

}  // namespace trainer
