#pragma once

#include "engine/config/experiment.h"
#include "engine/device/device.h"

namespace trainer {

/// What a device reaches at best: the bounds that ops are compared with.
struct Ceilings {
  double f32_flops_per_second = 0;   ///< of a large product
  double half_flops_per_second = 0;  ///< of one of 16-bit operands; 0: not measured
  double bytes_per_second = 0;       ///< of a large sum of two tensors
  double call_seconds = 0;           ///< of the smallest call
};

/// Measured on `device` within a few seconds, where `amp` is not off in 16 bit too. Throws ProgramOutOfMemory,
/// DeviceError.
Ceilings measure_ceilings(Device& device, Amp amp);

}  // namespace trainer
