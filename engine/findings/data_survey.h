#pragma once

#include <cstdint>
#include <vector>

#include "datasets/dataset.h"

namespace trainer {

/// Of numbers: what they range over.
struct NumberFacts {
  double least = 0, most = 0;
  double mean = 0, std = 0;  ///< the population's
};

/// What samples hold, as a model would get them in the first epoch.
///
/// Note [What is surveyed]
/// One class a sample is counted over all samples, since targets are known without the image. Everything else (pixels,
/// numbers, masks) is of `num_surveyed` training samples, chosen by the seed, prepared as the first epoch does.
struct DataSurvey {
  std::int64_t num_surveyed = 0;
  std::vector<std::int64_t> train_counts, validation_counts;  ///< samples of each class, or pixels of masks
  std::int64_t num_left_out = 0;                              ///< targets that are no class: loss.ignore_index
  bool counts_pixels = false;         ///< of masks, or tokens of texts; the counts are of the training samples surveyed
  std::vector<NumberFacts> channels;  ///< u8 pixels / 255, by channel; empty: samples are numbers
  NumberFacts numbers;                ///< of samples that are numbers, all of them together; of tokens nothing
  std::vector<NumberFacts> targets;   ///< numbers to predict, at most 64 of them; empty: classes, or more
};

/// Reads at most `most_samples` training samples. DataError for one that cannot be read.
DataSurvey survey_data(const LoadedData& data, std::uint64_t seed, std::int64_t most_samples);

/// The training samples that are surveyed, or shown: so many, chosen by the seed, ascending.
std::vector<std::int64_t> chosen_samples(std::int64_t num_train, std::uint64_t seed, std::int64_t most_samples);

}  // namespace trainer
