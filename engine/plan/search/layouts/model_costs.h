#pragma once

#include <cstdint>
#include <vector>

#include "engine/device/device.h"
#include "engine/graph/data_description.h"
#include "engine/graph/graph.h"
#include "engine/plan/cost_model.h"

namespace trainer {

/// Seconds of the backward pass of a micro-batch, with what is cheap to compute again (memory.recompute_cheap).
struct BackwardCosts {
  double backward = 0;          ///< without:
  double weight_gradients = 0;  ///< where the pass is split (zero_bubble); else 0

  BackwardCosts& operator+=(const BackwardCosts& other) {
    backward += other.backward;
    weight_gradients += other.weight_gradients;
    return *this;
  }
};

/// What one layer takes of a micro-batch.
struct LayerCosts {
  double forward = 0;            ///< seconds
  BackwardCosts first, further;  ///< that starts the gradients, and that adds to them
  std::int64_t kept_bytes = 0;   ///< of what its forward pass leaves for its backward pass
};

/// Bytes that a rank has of a parameter where it is not shared among those of a batch.
struct ParameterCosts {
  std::int64_t weight = 0, copy = 0, state = 0;
  std::int64_t gradient = 0;  ///< 0: it is not trained

  /// What others need of it in the next step.
  std::int64_t gathered() const { return copy > 0 ? copy : weight; }
};

/// What micro-batches of so many samples cost a rank that has the whole list of layers, maybe its part of each, alone:
/// what layouts are estimated from.
struct ModelCosts {
  Graph forward;
  std::vector<LayerCosts> layers;
  std::vector<ParameterCosts> parameters;
  double update_seconds = 0;
};

/// Of ranks that share layers as `experiment` says (parallel.tensor), whatever else it says of `parallel`; with
/// `splits_backward` as zero_bubble has it. With train.checkpointing times are those without, and bytes are those that
/// it keeps of the whole list: what it computes again, and keeps more, is each stage's to say. Under a budget no bytes
/// are counted. Throws ConfigError.
ModelCosts model_costs(const Experiment& experiment, const DataDescription& data, const DeviceModel& device,
                       const MachineRates& rates, std::int64_t num_samples, bool splits_backward);

}  // namespace trainer
