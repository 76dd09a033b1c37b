#pragma once

#include <vector>

#include "engine/ranks/mpi_library.h"
#include "engine/ranks/rank_communicator.h"

namespace trainer {

// Note [Ranks over MPI]
// ~~~~~~~~~~~~~~~~~~~~~
// MPI carries bytes; who lives, and why a rank ends, is told over TCP as always, since MPI has no word for a rank that
// is gone, and ends the process where it finds one. So nothing waits within MPI once ranks have met: messages are
// begun, and asked for until they are through, and between two questions the watch is asked. A rank that has failed
// never calls MPI again, and ends without MPI_Finalize, which would wait for the one that is gone; mpirun then ends
// what is left.
//
// What one rank sends another in an exchange is one row of bytes, cut into messages at the same places on both sides,
// however it lies in memory on either: a message of several pieces has a type of its own, which names them.

/// Ranks that mpirun of Open MPI has started. One in a process.
class MpiCommunicator final : public RankCommunicator {
 public:
  /// Waits for all ranks. Throws DeviceError where MPI does not begin, or knows other ranks than the variables say, and
  /// RankError.
  MpiCommunicator(const RankEnvironment& environment, double timeout_seconds);

  Carrier carrier() const override { return Carrier::mpi; }

 private:
  void carry(std::span<Traffic> by_rank) override;
  void end() override;

  template <typename Part, typename Begin>
  void begin_messages(int other, std::span<const Part> parts, bool is_received, Begin&& begin_message);
  /// Asks MPI until all messages are through.
  void finish_messages();

  const MpiCalls& calls_;
  // Of all messages of an exchange.
  std::vector<MpiCalls::Request> requests_;
  std::vector<int> ranks_;
  std::vector<std::int64_t> num_bytes_;  ///< to be received; -1 of what is sent
  // What MPI_Testsome tells.
  std::vector<int> done_;
  std::vector<MpiStatus> statuses_;
  // Pieces of a message.
  std::vector<int> sizes_;
  std::vector<std::ptrdiff_t> places_;
};

}  // namespace trainer
