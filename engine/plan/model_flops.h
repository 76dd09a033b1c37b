#pragma once

#include <cstdint>

#include "engine/config/experiment.h"
#include "engine/graph/data_description.h"

namespace trainer {

/// Floating-point operations of the model's forward and backward pass for one sample of a micro-batch of `batch_size`:
/// of the network as it is described, whatever a program computes again to save memory, the update left out. It is what
/// model FLOPs utilization (MFU) is the share of: observed samples a second, times these, by the peak of the device
/// (Chowdhery et al. 2022, PaLM, appendix B; there 6 N + 12 L H Q T a token for N parameters and L layers of H heads of
/// width Q, which counts all T places that a causal model's token could see; here those before it, norms and
/// activations too). As if a sample were one document without filling: where documents end, data alone tell.
double model_flops_of_sample(const Experiment& experiment, const DataDescription& data, std::int64_t batch_size);

}  // namespace trainer
