#pragma once

#include "engine/device/communicator.h"
#include "engine/device/host_slots.h"
#include "engine/device/step_scalars.h"

struct dnnl_engine;
struct dnnl_stream;

namespace trainer {

class ExchangeThread;

/// What every kernel of one CPU device shares. The device owns the handles and outlives its kernels.
struct CpuContext {
  int num_threads = 1;
  dnnl_engine* engine = nullptr;
  dnnl_stream* stream = nullptr;
  StepScalars scalars;  ///< of the running pass
  HostSlots* slots = nullptr;
  Communicator* communicator = nullptr;  ///< null where there is one rank
  ExchangeThread* exchanges = nullptr;   ///< null where there is one rank
};

}  // namespace trainer
