#include "engine/ranks/reach_ranks.h"

#include <fmt/format.h>

#include "engine/ranks/mpi_communicator.h"
#include "engine/ranks/socket_communicator.h"

namespace trainer {

Carrier carrier_between(const RankEnvironment& environment, Transport transport) {
  if (transport == Transport::mpi) {
    if (!environment.has_mpi)
      throw DeviceError(
          fmt::format("parallel.transport is mpi, which needs ranks that mpirun of Open MPI starts, as in `mpirun -np "
                      "{} trainer run`, "
                      "and these are started by {}; or use parallel.transport=auto",
                      environment.size, environment.starter));
    mpi();
    return Carrier::mpi;
  }
  return transport == Transport::automatic && environment.has_mpi && mpi_or_null() != nullptr ? Carrier::mpi
                                                                                              : Carrier::tcp;
}

std::unique_ptr<RankCommunicator> reach_ranks(const RankEnvironment& environment, const ParallelConfig& parallel) {
  const auto timeout_seconds = static_cast<double>(parallel.timeout);
  if (carrier_between(environment, parallel.transport) == Carrier::mpi)
    return std::make_unique<MpiCommunicator>(environment, timeout_seconds);
  return std::make_unique<SocketCommunicator>(environment, timeout_seconds);
}

}  // namespace trainer
