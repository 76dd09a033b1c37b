#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/device/communicator.h"
#include "engine/errors.h"
#include "engine/ranks/carrier.h"
#include "engine/ranks/direct_memory.h"
#include "engine/ranks/rank_environment.h"
#include "engine/ranks/rank_watch.h"

namespace trainer {

/// What is on its way between this rank and another.
struct Traffic {
  std::vector<SentBytes> sends;
  std::vector<ReceivedBytes> receives;
};

/// Ranks that have met (Note [Meeting] in rank_meeting.h), whatever carries bytes between them; on one machine they
/// read each other's memory where the system lets them. One thread at a time calls exchange().
class RankCommunicator : public Communicator {
 public:
  int rank() const final { return environment_.rank; }
  int size() const final { return environment_.size; }
  void exchange(std::span<const SentBytes> sends, std::span<const ReceivedBytes> receives) final;
  void check() const final { watch_->check(); }
  int failure_descriptor() const final { return watch_->descriptor(); }

  virtual Carrier carrier() const = 0;

  /// Tells all others that this rank ends for that reason, which ends them as well; whether rank 0 could be told.
  bool tell_end(ExitCode code, const std::string& reason) { return watch_->tell_end(code, reason); }
  /// RankWatch::ends_before.
  bool ends_before(ExitCode code) const { return watch_->ends_before(code); }
  /// Waits until the process of rank 0 has ended, but not longer than some seconds.
  void wait_for_end_of_first() const { watch_->wait_for_end_of_first(); }
  /// Waits until all ranks are here, or one has failed: who starts ranks may end all of them once one has ended.
  /// Nothing is exchanged behind it.
  void leave() noexcept;

 protected:
  explicit RankCommunicator(const RankEnvironment& environment);

  /// Of ranks that have met.
  void begin(std::vector<Socket> words, double timeout_seconds);
  /// What all ranks come to, where nothing has failed.
  virtual void end() {}
  /// Both directions of each rank's traffic, of which no part is empty; throws as exchange() does.
  virtual void carry(std::span<Traffic> by_rank) = 0;

  const RankWatch& watch() const { return *watch_; }

 private:
  /// Finds out whose memory can be read: Note [Ranks on one machine] in direct_memory.h.
  void find_direct();
  /// Whether so many bytes from or to a rank are read directly; both ends say the same.
  bool is_direct(int rank, std::int64_t num_bytes) const {
    return processes_[static_cast<std::size_t>(rank)] > 0 && num_bytes >= least_direct_bytes;
  }

  static constexpr std::int64_t least_direct_bytes = std::int64_t{32} << 10;

  const RankEnvironment environment_;
  std::vector<std::int64_t> processes_;  ///< by rank, where both can read the other's memory; 0: they cannot
  std::unique_ptr<RankWatch> watch_;
  std::vector<Traffic> traffic_;  ///< by rank
};

}  // namespace trainer
