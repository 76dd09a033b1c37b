#pragma once

#include <memory>
#include <optional>

#include "engine/config/experiment.h"
#include "engine/device/device.h"
#include "engine/ranks/rank_communicator.h"

namespace trainer {

/// How a run is one of several ranks: what started it, what --ranks and the configuration say.
class Ranks {
 public:
  /// `asked`: --ranks; 0: not given. Throws ConfigError where these differ.
  Ranks(const Experiment& experiment, std::int64_t asked);

  /// Whether this process is to start the ranks, and is none itself.
  bool are_to_be_started() const { return num_ranks_ > 1 && !environment_; }
  int size() const { return num_ranks_; }
  int rank() const { return environment_ ? environment_->rank : 0; }
  bool leads() const { return rank() == 0; }

  /// Makes the experiment that of this rank.
  void prepare(Experiment& experiment) const;
  /// Meets the others, which must run the same configuration, but for device and memory.limit, with the same trainer:
  /// what ranks tell each other, and when, follows from it. Throws RankError; ConfigError that says what differs.
  void meet(const Experiment& experiment);
  /// How the device reaches those of the others, which are of its kind. Throws ConfigError, RankError and DeviceError.
  void reach(Device& device);
  /// Tells the others that this rank ends for that reason; whether rank 0, which is another, has heard of it.
  bool tell_end(ExitCode code, const std::string& reason);
  /// Tells the others that this rank has run out of memory; whether a rank before it has as well, and tells the user.
  bool runs_out_behind_another();
  /// Null where there is one rank.
  RankCommunicator* communicator() { return communicator_.get(); }
  /// Nothing where there is one rank.
  std::optional<Carrier> carrier() const {
    return communicator_ ? std::optional(communicator_->carrier()) : std::nullopt;
  }
  /// Behind all that this rank had to do: waits for the others, since who started them may end all once one has ended.
  void leave();
  /// Where a rank has failed: waits until rank 0, which may have yet to tell of it, has ended. Connections stay open
  /// until this process ends.
  void leave_failed();

 private:
  std::optional<RankEnvironment> environment_;
  int num_ranks_ = 1;
  std::unique_ptr<RankCommunicator> communicator_;
};

}  // namespace trainer
