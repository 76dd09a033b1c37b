#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/config/experiment.h"
#include "engine/dtype.h"
#include "engine/train/files/weight_files.h"
#include "engine/train/files/weights_match.h"

namespace trainer {

/// What is written of a model.
struct ExportedWeights {
  std::int64_t num_tensors = 0, num_numbers = 0, num_bytes = 0;  ///< bytes of the file
  std::vector<DType> types;                                      ///< of the tensors, each once, as they come
};

/// The tensors of a file that trainer wrote, which are all of a model's, under its names.
WeightsMatch match_of_own(const WeightFiles& files);

/// Writes the tensors that `match` has as loaded to one safetensors file, beside its place until it is whole: under the
/// model's names and in PyTorch's shapes, or as `map` says; as `type`, f32, f16 or bf16, or as the files have them.
/// Holds 32 MiB of a tensor at most. Throws ConfigError where names cannot be written (exported_names.h); DataError
/// where a file cannot be read or written, and for a number that is not finite, or not as `type`.
ExportedWeights export_weights(const WeightsMatch& match, const WeightFiles& files, const NameMap* map,
                               std::optional<DType> type, const std::string& path);

}  // namespace trainer
