#pragma once

#include <string>
#include <vector>

#include "engine/device/device.h"

namespace trainer {

// What every device promises of whole runs.

/// Losses, learning rates and final weights of the networks of tests/golden are PyTorch's.
void check_golden_networks(Device& device);
/// Step by step the plan's bytes are the run's.
void check_plan_equals_run(Device& device);
/// Losses stay close to the CPU device's, for a network with every kind of layer.
void check_losses_of_cpu(Device& device, const std::vector<std::string>& overrides = {});
/// Each model of configs/models, small, trains as on the CPU device, with the plan's bytes.
void check_shipped_models(Device& device);
/// A model whose loss compares features of a frozen network trains as on the CPU device, with the plan's bytes.
void check_frozen_network(Device& device);
/// Techniques that only hold less memory change no bit, those that round stay near, and the plan is the run's memory.
void check_memory_techniques(Device& device);
/// Steps that repeat themselves are replayed, and give the bits that they give kernel by kernel.
void check_replays(Device& device);
/// A hundred runs without enough memory leave the device as it was.
void check_out_of_memory_leaves_nothing(Device& device);
/// A run that waits after each call computes the same.
void check_synchronous_run(Device& device);
/// One batch that is not finite ends the run at its step, told as the CPU device tells it, though the next was queued.
void check_divergence(Device& device);
/// An update that overflows ends the run at its own step, with the parameter named, as on the CPU: also where the next
/// step was queued already, in parts of a step, and with weights of 16 bits.
void check_lost_weights_end_runs(Device& device);

}  // namespace trainer
