#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/errors.h"
#include "engine/ranks/socket.h"

namespace trainer {

// Note [A word from every rank]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Beside the connection for tensors, two ranks have one over which each tells the other that it lives, several times a
// second, by a thread that does nothing else. A process that is killed closes its connections at once; one that is
// stopped, or whose network is gone, goes silent, and after the time-out counts as lost. A rank that ends for a reason
// of its own tells it to all others before, with its exit code, and they end with it. A rank that is through says so,
// and may then be gone. What was found first is what all of a rank's threads are told. Of a rank that is lost rank 0
// tells; where it is rank 0 itself, the lowest rank that is left.

/// Listens to all other ranks, in a thread of its own.
class RankWatch {
 public:
  /// `sockets` by rank, not open for the own one.
  RankWatch(int rank, std::vector<Socket> sockets, double timeout_seconds);
  /// Says that this rank is through.
  ~RankWatch();
  RankWatch(const RankWatch&) = delete;
  RankWatch& operator=(const RankWatch&) = delete;

  /// Throws RankError where another rank has failed; UntoldRankError where it is rank 0 and this rank is to tell of it.
  void check() const;
  bool has_failed() const { return failed_.load(std::memory_order_acquire); }
  /// Waits until it is known why a connection to that rank is gone, and throws that.
  [[noreturn]] void fail(int rank) const;
  /// Readable once a rank has failed.
  int descriptor() const { return wake_[0]; }

  /// Tells all others that this rank ends for that reason; whether rank 0, where that is another, could be told, or
  /// ends for a reason that it tells of itself.
  bool tell_end(ExitCode code, const std::string& reason);
  /// Whether a rank before this one has told that it ends with that code: waits until all of these have ended, but not
  /// longer than some seconds.
  bool ends_before(ExitCode code) const;
  /// Waits until the process of rank 0 has ended, but not longer than some seconds.
  void wait_for_end_of_first() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Peer {
    Socket socket;
    Clock::time_point heard;
    std::vector<std::byte> unread;
    std::atomic<bool> is_through{false};  ///< there is nothing more to hear
    std::atomic<bool> is_lost{false};     ///< by its silence
    std::atomic<int> code{-1};            ///< with which it has told that it ends
  };

  /// Of one that no longer takes words: waits until its last have been heard, but not longer than a second.
  static bool has_told_of_its_end(const Peer& peer);
  void watch();
  void hear(int rank, Peer& peer);
  void note(ExitCode code, std::string reason, bool is_untold = false);
  void note_silent(Clock::time_point now);
  void note_lost(int rank, std::string reason);
  void say(std::byte word);

  const int rank_;
  const double timeout_seconds_;
  std::vector<Peer> peers_;
  std::mutex saying_;
  mutable std::mutex mutex_;
  ExitCode code_ = ExitCode::unexpected;  ///< guarded by mutex_
  std::string reason_;                    ///< likewise
  bool is_untold_ = false;                ///< likewise
  std::atomic<bool> failed_{false}, stop_{false};
  int wake_[2] = {-1, -1};
  std::thread thread_;
};

}  // namespace trainer
