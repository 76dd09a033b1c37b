#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/device/communicator.h"
#include "engine/errors.h"
#include "engine/ranks/direct_memory.h"
#include "engine/ranks/rank_environment.h"
#include "engine/ranks/rank_watch.h"
#include "engine/ranks/socket.h"

namespace trainer {

// Note [Meeting]
// ~~~~~~~~~~~~~~
// Rank 0 waits at a port that all know. Every other rank connects to it and says which one it is and where it waits
// itself; once all have come, rank 0 tells each where all others wait, and a rank connects to those before it. Between
// two ranks there are two connections, for tensors and for words (Note [A word from every rank] in rank_watch.h).

/// Ranks over TCP, on one machine or many; on one they read each other's memory where the system lets them.
class SocketCommunicator final : public Communicator {
 public:
  /// Waits for all ranks, at most `timeout_seconds`. Throws RankError.
  SocketCommunicator(const RankEnvironment& environment, double timeout_seconds);

  int rank() const override { return environment_.rank; }
  int size() const override { return environment_.size; }
  void exchange(std::span<const SentBytes> sends, std::span<const ReceivedBytes> receives) override;
  void check() const override { watch_->check(); }
  int failure_descriptor() const override { return watch_->descriptor(); }

  /// Tells all others that this rank ends for that reason, which ends them as well; whether rank 0 could be told.
  bool tell_end(ExitCode code, const std::string& reason) { return watch_->tell_end(code, reason); }
  /// RankWatch::ends_before.
  bool ends_before(ExitCode code) const { return watch_->ends_before(code); }

 private:
  /// What is on its way between this rank and another.
  struct Traffic {
    std::vector<SentBytes> sends;
    std::vector<ReceivedBytes> receives;
    std::size_t next_send = 0, next_receive = 0;
    bool is_sending() const { return next_send < sends.size(); }
    bool is_receiving() const { return next_receive < receives.size(); }
  };

  void meet(double timeout_seconds, std::vector<Socket>& words);
  /// Finds out whose memory can be read: Note [Ranks on one machine] in direct_memory.h.
  void find_direct();
  /// Whether so many bytes from or to a rank are read directly; both ends say the same.
  bool is_direct(int rank, std::int64_t num_bytes) const {
    return processes_[static_cast<std::size_t>(rank)] > 0 && num_bytes >= least_direct_bytes;
  }
  /// What stands in traffic_, over the connections.
  void carry();
  bool send_some(int rank, Traffic& traffic);
  bool receive_some(int rank, Traffic& traffic);

  static constexpr std::int64_t least_direct_bytes = std::int64_t{32} << 10;

  const RankEnvironment environment_;
  std::vector<std::int64_t> processes_;  ///< by rank, where both can read the other's memory; 0: they cannot
  std::vector<Socket> sockets_;          ///< for tensors, by rank
  std::unique_ptr<RankWatch> watch_;
  std::vector<Traffic> traffic_;  ///< by rank
};

}  // namespace trainer
