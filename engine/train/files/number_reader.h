#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/dtype.h"
#include "engine/train/files/weight_files.h"

namespace trainer {

/// Reads numbers of a file's tensors as another type.
class NumberReader {
 public:
  /// `files` must outlive this.
  explicit NumberReader(const WeightFiles& files) : files_(files) {}

  /// `count` elements of a tensor that is not foreign from `first` on, as `wanted`: f32, f16 or bf16, rounded to
  /// nearest even; or the tensor's own type, as they are. Throws DataError as WeightFiles::read.
  void read(const WeightTensor& tensor, std::int64_t first, std::int64_t count, DType wanted, std::byte* to);

 private:
  const WeightFiles& files_;
  std::vector<std::byte> raw_;
  std::vector<float> wide_;
};

}  // namespace trainer
