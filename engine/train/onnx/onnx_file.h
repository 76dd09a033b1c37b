#pragma once

#include <cstdint>
#include <string>

#include "engine/train/files/weight_files.h"
#include "engine/train/files/weights_match.h"
#include "engine/train/onnx/onnx_graph.h"

namespace trainer {

struct OnnxFile {
  std::int64_t num_bytes = 0;
  std::string data_path;            ///< of the file beside it with its parameters; empty: there is none
  std::int64_t data_bytes = 0;      ///< of that
  std::int64_t num_parameters = 0;  ///< numbers
};

/// A message of Protocol Buffers has at most 2 GiB.
inline constexpr std::int64_t most_onnx_bytes = (std::int64_t{1} << 31) - (std::int64_t{1} << 20);

/// Writes a ModelProto whose parameters `match` has as loaded, in f32, each file beside its place until it is whole.
/// Where it would have more than `most_bytes`, the parameters are in PATH.data, which stays beside it. Holds 32 MiB of
/// a tensor at most, and the whole of one that the file has with its axes swapped. Throws DataError.
OnnxFile write_onnx(const OnnxGraph& graph, const std::string& model_name, const std::string& trainer_version,
                    const WeightsMatch& match, const WeightFiles& files, const std::string& path,
                    std::int64_t most_bytes = most_onnx_bytes);

}  // namespace trainer
