#pragma once

#include <cstdint>
#include <vector>

#include "engine/shape.h"

namespace trainer {

/// What a program must know of a dataset before it is compiled; made from file headers or declared in the
/// configuration, never from the samples themselves.
struct DataDescription {
  TensorType sample;             ///< one sample, without the batch: u8 (H, W, C) pixels or f32 (features)
  bool categorical = true;       ///< targets: one i32 class a sample, or f32 numbers
  std::int64_t num_outputs = 0;  ///< classes, or numbers in a target
  std::int64_t num_train = 0;
  std::int64_t num_validation = 0;  ///< 0: no evaluation
  std::int64_t num_held = 0;        ///< that are loaded, whether a part of them is taken or all
  /// Normalisation of u8 pixels on the device: (pixel / 255 − mean) / std, one value for each channel.
  std::vector<float> mean, std;

  /// Type of the target of one sample: i32 scalar or f32 (num_outputs).
  TensorType target() const {
    return categorical ? TensorType{DType::i32, Shape{}} : TensorType{DType::f32, Shape{num_outputs}};
  }
};

}  // namespace trainer
