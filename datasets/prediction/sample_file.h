#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "datasets/prediction/prediction_input.h"
#include "engine/config/experiment.h"

namespace trainer {

/// A file of several samples, from its first to its last.
class SampleFile {
 public:
  virtual ~SampleFile() = default;
  SampleFile(const SampleFile&) = delete;
  SampleFile& operator=(const SampleFile&) = delete;

  std::int64_t size() const { return size_; }
  /// Fills name and bytes of the next input, with size and channels where they are pixels, and adds its number in the
  /// file to `below`; false at the end. What is
  /// wrong with one sample is its error. Throws DataError where the file cannot be read on.
  bool next(PredictionInput& input);

 protected:
  explicit SampleFile(std::int64_t size) : size_(size) {}
  virtual void read(std::int64_t index, PredictionInput& input) = 0;

 private:
  std::int64_t size_, index_ = 0;
};

/// Opens a file of arrays, or of IDX. `channels`: that pixels are taken to have; 0: the model takes numbers of
/// `sample`'s shape. Throws DataError, ConfigError for one that holds no such samples.
std::unique_ptr<SampleFile> open_sample_file(const std::string& path, const DataConfig& config,
                                             const TensorType& sample, std::int64_t channels);

}  // namespace trainer
