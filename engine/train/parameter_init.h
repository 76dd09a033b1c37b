#pragma once

#include <cstdint>
#include <span>

#include "engine/graph/graph.h"
#include "engine/train/executor.h"

namespace trainer {

/// Philox stream of parameter i is parameter_stream + i: apart from those of ops, which count from 0.
inline constexpr std::uint32_t parameter_stream = 0x1A170000;

/// The values that a parameter starts with, from element `first` on, a pure function of (seed, index of the parameter,
/// element in the order of files).
///
///   pytorch          weights and biases uniform in ±1/√fan_in (torch.nn: kaiming_uniform_ with a = √5)
///   kaiming_uniform  ±√(6 / fan_in)               kaiming_normal  deviation √(2 / fan_in)
///   xavier_uniform   ±√(6 / (fan_in + fan_out))   xavier_normal   deviation √(2 / (fan_in + fan_out))
///   normal           deviation 0.02               zeros           0
///
/// Each of them times Parameter::scale. Biases start at zero but for `pytorch`. Norm weights start at one, running
/// means at zero, variances at one.
void fill_initial(const Parameter& parameter, std::uint64_t seed, std::uint32_t index, std::span<float> values,
                  std::int64_t first = 0);

/// Fills every parameter of the model on the device; `executor` has run its program's load.
void initialize_parameters(Executor& executor, std::uint64_t seed);

/// Fills those of frozen networks that no file has.
void write_frozen_constants(Executor& executor);

}  // namespace trainer
