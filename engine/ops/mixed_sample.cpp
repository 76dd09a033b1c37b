#include "engine/ops/mixed_sample.h"

#include "engine/shape.h"

namespace trainer {

TensorType mixed_samples_type(std::int64_t batch_size) {
  return {DType::i32, {batch_size, sizeof(MixedSample) / sizeof(std::int32_t)}};
}

}  // namespace trainer
