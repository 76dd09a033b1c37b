#pragma once

#include <span>
#include <vector>

#include "engine/ranks/rank_communicator.h"
#include "engine/ranks/socket.h"

namespace trainer {

/// Ranks over TCP, on one machine or many.
class SocketCommunicator final : public RankCommunicator {
 public:
  /// Waits for all ranks, at most `timeout_seconds`. Throws RankError.
  SocketCommunicator(const RankEnvironment& environment, double timeout_seconds);

  Carrier carrier() const override { return Carrier::tcp; }

 private:
  /// What is left of a rank's traffic.
  struct Flow {
    std::span<SentBytes> sends;
    std::span<ReceivedBytes> receives;
    std::size_t next_send = 0, next_receive = 0;
    bool is_sending() const { return next_send < sends.size(); }
    bool is_receiving() const { return next_receive < receives.size(); }
  };

  void carry(std::span<Traffic> by_rank) override;
  bool send_some(int rank, Flow& flow);
  bool receive_some(int rank, Flow& flow);

  std::vector<Socket> sockets_;  ///< by rank
  std::vector<Flow> flows_;      ///< by rank
};

}  // namespace trainer
