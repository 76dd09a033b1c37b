#pragma once

#include <cstdint>

#include "cuda/launch/stream.h"

namespace trainer::cuda {

/// As engine/ops/document_spans.h.
struct DocumentSpansTask {
  const std::int32_t* tokens = nullptr;  ///< (samples, length)
  std::int32_t* spans = nullptr;         ///< (samples, length, 2)
  std::int32_t* places = nullptr;        ///< (samples, length)
  std::int64_t samples = 0, length = 0;
  std::int32_t document_token = 0, pad_token = 0;
  bool has_padding = false;
};

/// One launch, a block for each sample. Bytes: tokens four times, mostly from the cache, and what is written once.
void document_spans(const DocumentSpansTask& task, Stream stream);

}  // namespace trainer::cuda
