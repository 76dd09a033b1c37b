#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/ranks/carrier.h"
#include "engine/ranks/rank_environment.h"
#include "engine/ranks/socket.h"

namespace trainer {

// Note [Meeting]
// ~~~~~~~~~~~~~~
// Rank 0 waits at a port that all know. Every other rank connects to it and says which one it is and where it waits
// itself; once all have come, rank 0 tells each where all others wait, and a rank connects to those before it. Between
// two ranks there is a connection for words (Note [A word from every rank] in rank_watch.h) and, where TCP carries
// them, one for tensors.

/// By rank, not open for the own one; without those for tensors where something else carries them.
struct RankConnections {
  std::vector<Socket> words, tensors;
};

/// Where rank 0 waits, in other ways to name it than RankEnvironment's.
struct FirstPlace {
  std::array<char, 1000> addresses{};  ///< names and numbers of its machine, with ',' between
  std::int32_t port = 0;
};

/// Tells all ranks what rank 0 gives to it.
using TellFirstPlace = std::function<void(FirstPlace&)>;

/// Waits for all ranks, at most `timeout_seconds`. With `tell` rank 0 waits at any port, which is told by it, unless
/// MASTER_ADDR names a place. Throws RankError; ConfigError where nobody knows the place.
RankConnections connect_ranks(const RankEnvironment& environment, Carrier carrier, double timeout_seconds,
                              const TellFirstPlace& tell = {});

}  // namespace trainer
