#pragma once

#include <cstdint>

struct dnnl_engine;
struct dnnl_stream;

namespace trainer {

/// What every kernel of one CPU device shares. The device owns the handles and outlives its kernels.
struct CpuContext {
  int num_threads = 1;
  dnnl_engine* engine = nullptr;
  dnnl_stream* stream = nullptr;
};

}  // namespace trainer
