#pragma once

#include <cstdint>

#include "engine/config/experiment.h"
#include "engine/device/communicator.h"
#include "engine/device/device.h"
#include "engine/graph/data_description.h"

namespace trainer {

/// The experiment with the cut into stages that all ranks train with, which call it at the same place: what rank 0
/// finds (with_settled_cut in engine/plan/search/fitting_cut.h) for the least capacity of them all. `ranks`: null where
/// there is one, or each is for itself.
Experiment with_agreed_cut(const Experiment& experiment, const DataDescription& data, const DeviceModel& device,
                           std::int64_t capacity, Communicator* ranks);

}  // namespace trainer
