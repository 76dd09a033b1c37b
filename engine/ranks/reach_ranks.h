#pragma once

#include <memory>

#include "engine/config/experiment.h"
#include "engine/ranks/rank_communicator.h"

namespace trainer {

/// Which carries bytes between such ranks. Throws DeviceError where it is to be MPI and cannot be.
Carrier carrier_between(const RankEnvironment& environment, Transport transport);

/// Meets them. Throws what the constructors of MpiCommunicator and SocketCommunicator throw, and carrier_between().
std::unique_ptr<RankCommunicator> reach_ranks(const RankEnvironment& environment, const ParallelConfig& parallel);

}  // namespace trainer
