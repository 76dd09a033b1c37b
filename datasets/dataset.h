#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/config/experiment.h"
#include "engine/errors.h"
#include "engine/graph/data_description.h"
#include "engine/graph/preprocessing.h"
#include "engine/shape.h"

namespace trainer {

struct StageTimes;

/// One thread's way into a dataset, with the memory that reading takes.
class SampleReader {
 public:
  virtual ~SampleReader() = default;
  SampleReader(const SampleReader&) = delete;
  SampleReader& operator=(const SampleReader&) = delete;

  /// Writes each field of a sample, as many bytes as its type has, to where `fields` says, which is aligned for the
  /// type. 0 ≤ index < the dataset's size(); `epoch` counts from 0 and decides what is drawn for the sample. Allocates
  /// nothing (Note [Memory of readers] in reader_memory.h). DataError where a sample cannot be read.
  virtual void read(std::int64_t epoch, std::int64_t index, std::span<std::byte* const> fields) = 0;
  /// The target alone, as read() gives it: target_type().num_elements() classes; categorical datasets only.
  virtual void read_classes(std::int64_t epoch, std::int64_t index, std::int32_t* classes) = 0;
  /// Of host memory that it has allocated: from its beginning on what DataDescription::reader_bytes counts of it.
  virtual std::int64_t held_bytes() const { return 0; }
  /// From now on each read() adds what its stages took to `times`, which outlives the reader; null: no more. False, and
  /// nothing is added, where reading a sample is one stage.
  virtual bool time_stages(StageTimes* /*times*/) { return false; }

 protected:
  SampleReader() = default;
};

/// Numbered samples, each a list of fields: Note [Fields of a batch] in engine/graph/data_description.h. Immutable once
/// made, so any number of threads may read it.
class Dataset {
 public:
  virtual ~Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  virtual std::int64_t size() const = 0;
  /// Of one sample, as in DataDescription.
  const std::vector<TensorType>& input_types() const { return input_types_; }
  const TensorType& target_type() const { return target_type_; }
  bool categorical() const { return target_type_.dtype == DType::i32; }

  /// As SampleReader::read, of an epoch in which nothing is drawn anew: the first.
  virtual void read(std::int64_t index, std::span<std::byte* const> fields) const = 0;
  /// For one thread; the dataset outlives it. By default one that calls read(), whatever the epoch.
  virtual std::unique_ptr<SampleReader> make_reader() const;
  /// The target alone, target_type().num_elements() classes; categorical datasets only. Of a sample that cannot be
  /// read, too, where its target is known without it.
  virtual void read_classes(std::int64_t index, std::int32_t* classes) const = 0;
  /// The number that a sample has in the whole that this is a part of: before a split, or a choice of some. It is by
  /// this number that transforms are drawn.
  virtual std::int64_t number_of(std::int64_t index) const { return index; }
  /// What messages call a sample, its file; empty where it has no name.
  virtual std::string name_of(std::int64_t /*index*/) const { return {}; }
  /// Why samples were skipped that could not be read: `data.on_bad_sample: skip`.
  virtual std::vector<std::string> skipped_samples() const { return {}; }
  /// Why data.cache does not keep samples any more; empty: it does, or there is none.
  virtual std::string cache_failure() const { return {}; }
  /// CRC-32 of the samples and, behind them, the targets as they are in memory, of the whole files that they come from,
  /// whatever part of them this is (of arrays: Note [Identity of arrays] in arrays/array_field.h; of folders of images
  /// names, sizes of files and classes); nothing where they are computed from the configuration.
  virtual std::optional<std::uint32_t> content_crc32() const { return std::nullopt; }
  /// The class of a sample, where its target is one class.
  std::int32_t class_of(std::int64_t index) const;

 protected:
  Dataset(std::vector<TensorType> input_types, const TensorType& target_type)
      : input_types_(std::move(input_types)), target_type_(target_type) {}

 private:
  std::vector<TensorType> input_types_;
  TensorType target_type_;
};

struct LoadedData {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> validation;  ///< null: no evaluation
  /// Equals describe_data() of the same configuration, but for the reading_bytes of a table that is declared whole.
  DataDescription description;
  Preprocessing preprocessing;       ///< what the samples went through
  std::vector<std::string> remarks;  ///< sentences about the files, such as which were left out
  /// Of a text: bytes that a validation target stands for, in the mean; 0: not known.
  double bytes_of_target = 0;
};

/// What the configuration's data will look like, from declared keys, file headers and file sizes. A csv whose keys do
/// not declare everything is read once to count its rows, features and classes (twice where which samples are left out
/// depends on what kind a column is); idx labels are read where `data.classes` is not
/// declared. The seed only chooses which samples a split sets aside, never how many.
///
/// Note [Declared data]
/// `data.shape`, `data.classes` (categorical targets), `data.samples` and `data.validation_samples` together describe
/// the data completely; the formats that fix shape and classes (cifar10) need only the counts. Files that are missing
/// are then not missed, so a plan needs no data. Where files exist they are believed, and a declared key that
/// disagrees with them is a DataError that names both (for a csv that is declared completely when it is loaded), but
/// for counts below the files': so many samples are then taken, chosen by the seed. For idx `data.classes` may exceed
/// the labels that occur.
///
/// Note [Validation]
/// In order: a written `data.split` sets aside round(split × training samples), chosen by the seed, and validation
/// files merely found beside the training files are left alone; else validation files, named or found; digits without
/// a split set 360 samples aside. `data.split` together with `data.validation` is a ConfigError.
///
/// Throws DataError (missing, damaged or contradictory files) or ConfigError (keys that cannot be meant).
DataDescription describe_data(const DataConfig& config, std::uint64_t seed);

/// Reads the data into host memory (synthetic samples are computed when they are read, arrays that are not deflated
/// stay in their files).
LoadedData load_data(const DataConfig& config, std::uint64_t seed);

/// Threads that read the data: `data.workers`, or one where samples lie in memory as they are, else one for each usable
/// thread but one, at most 16.
int num_workers(const DataConfig& config);

/// Files the configuration needs that do not exist, as it names them; for `check`.
std::vector<std::string> missing_data_files(const DataConfig& config);

/// "; scripts/get_data.sh mnist 'data/mnist' fetches it", behind what names a missing file; empty for data that nobody
/// offers.
std::string how_to_fetch(const DataConfig& config);

}  // namespace trainer
