#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "datasets/dataset.h"
#include "datasets/image/image_source.h"

namespace trainer {

inline bool is_categorical(const DataConfig& config) { return config.target_type == TaskTarget::categorical; }

struct TableSurvey;

/// What a format can tell without loading the samples.
struct DatasetHeader {
  std::string source;  ///< what messages name: a file, or the format itself
  TensorType sample;   ///< as stored; of images of several sizes a shape of rank 0
  bool categorical = true;
  std::int64_t num_outputs = 0;     ///< as in DataDescription
  std::int64_t num_train = 0;       ///< before a split
  std::int64_t num_validation = 0;  ///< of validation data of its own; 0: none
  Shape target_shape = {};          ///< of one sample's classes; of numbers, where they are no list of num_outputs
  std::int64_t reading_bytes = 0;   ///< as in DataDescription
  std::shared_ptr<const TableSurvey> table = nullptr;  ///< of a csv: what its columns hold
  /// Of formats whose images have any size: what DatasetFormat::load gives of others.
  std::shared_ptr<const ImageSource> train_images = nullptr, validation_images = nullptr;
  Preprocessing preprocessing = {};       ///< likewise
  std::vector<std::string> remarks = {};  ///< sentences about the files, which a run begins with
  /// As in DataDescription, where it depends on the files; else DatasetFormat::held_bytes.
  std::optional<std::int64_t> held_bytes = std::nullopt;
};

/// Classes, one where no shape is told, or numbers.
inline TensorType target_of(const DatasetHeader& header) {
  if (header.categorical) return {DType::i32, header.target_shape};
  return {DType::f32, header.target_shape.rank() > 0 ? header.target_shape : Shape{header.num_outputs}};
}

/// Numbers in a numeric target that the keys declare.
inline std::int64_t num_numbers(const DataConfig& config) {
  if (!config.target_shape.empty()) return Shape(config.target_shape).num_elements();
  return std::max({std::int64_t{1}, config.classes, static_cast<std::int64_t>(config.target.size())});
}

/// What a format loads: all training samples, before a split, and its own validation data or null.
struct DatasetContents {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> validation;
  Preprocessing preprocessing;                 ///< but for the normalisation of pixels, which the configuration says
  std::vector<std::int64_t> token_bytes = {};  ///< of a text: bytes that each token stands for, by its number
};

/// One kind of dataset. A new one is a file that defines `<name>_format()` and a line in dataset_list.h.
struct DatasetFormat {
  Shape fixed_shape;                        ///< rank 0: from the data
  std::int64_t fixed_classes = 0;           ///< 0: from the data
  std::int64_t default_num_validation = 0;  ///< samples set aside where neither a split nor validation data exists
  bool numeric_targets = false;             ///< whether `data.target_type: numeric` makes sense
  /// Of host memory that the loaded samples take, where it is not all of them.
  std::int64_t (*held_bytes)(const DatasetHeader&) = nullptr;
  bool inspect_reads_everything = false;  ///< then declared keys, where complete, are taken at their word instead

  /// Files without which the data cannot be loaded.
  std::vector<std::string> (*required_files)(const DataConfig&) = nullptr;
  DatasetHeader (*inspect)(const DataConfig&) = nullptr;
  /// With what `inspect` found; null: DatasetHeader::train_images are all there is.
  DatasetContents (*load)(const DataConfig&, std::uint64_t seed, const DatasetHeader&) = nullptr;
};

/// Of stored samples, where the format fixes it; else of rank 0.
Shape fixed_shape_of(DataType type);

/// DatasetFormat::held_bytes of samples that are computed as they are read.
inline std::int64_t holds_nothing(const DatasetHeader& /*header*/) { return 0; }

/// DatasetHeader::held_bytes of padded documents: where each begins, and where the last of each part ends.
inline std::int64_t bytes_of_document_begins(const DatasetHeader& header) {
  const std::int64_t parts = header.num_validation > 0 ? 2 : 1;
  return (header.num_train + header.num_validation + parts) * static_cast<std::int64_t>(sizeof(std::int64_t));
}

/// DatasetFormat::required_files of what needs none.
inline std::vector<std::string> no_files(const DataConfig& /*config*/) { return {}; }

/// An error in the `data` section, located where the section's place is known.
ConfigError data_config_error(const DataConfig& config, const std::string& message,
                              const std::string& expectation = "");

/// `path` as given, or below `data.root` where that is set and the path is relative.
std::string data_path(const DataConfig& config, const std::string& path);

}  // namespace trainer
