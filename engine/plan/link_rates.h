#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "engine/config/gpu_profile.h"
#include "engine/ops/op.h"

namespace trainer {

// Note [Links between ranks]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~
// What ranks exchange is cut into a part for each, and goes around all of them at once: each rank sends
// (n − 1) / n of the bytes, of a sum twice that, over its link to the next, and the slowest of these links is what all
// wait for. Ranks stand on machines one behind the other, as many on each as parallel.ranks_per_node says; the last
// machine may have fewer. On a machine the link is NVLink where all its GPUs are alike and have it, else PCI Express;
// between machines it is the network, which all ranks of a machine send over together. To that comes what messages
// take however short: those that wait for one another are, as in NCCL's trees, one for each further rank of a machine
// and one for each time that the machines halve. NCCL has a second way to send, with flags beside the data: messages
// take less, and bytes four times as long; whichever is faster counts. How fast CPUs reach one another nobody has
// measured: that is left out of predicted times, and said.

/// One kind of link, in one direction.
struct LinkRate {
  std::string name;             ///< "NVLink", "PCIe", "the network"
  double bytes_per_second = 0;  ///< 0: not known
  /// That a message takes however short; beside it, where bytes take four times as long.
  double message_seconds = 0, quick_message_seconds = 0;

  bool is_known() const { return bytes_per_second > 0; }
  friend bool operator==(const LinkRate&, const LinkRate&) = default;
};

/// What ranks reach one another over.
struct RankLinks {
  LinkRate within;                                  ///< from a rank to another on its machine
  LinkRate between;                                 ///< a rank's share of what its machine sends to others
  double call_seconds = 0, quick_call_seconds = 0;  ///< that an exchange takes beside its messages, by either way
  std::int64_t ranks_per_node = 0;                  ///< 0: all on one machine

  friend bool operator==(const RankLinks&, const RankLinks&) = default;
};

inline constexpr std::int64_t usual_gpus_per_node = 8;

/// GPUs that are alike, of ranks that follow one another.
struct GpusOfRanks {
  const GpuProfile* profile = nullptr;
  std::int64_t count = 1;
};

/// Of published figures, at the shares of them that NCCL's own model of a topology counts on (src/graph/topo.h: 20 of
/// the 25 GB/s of an A100's NVLink, 12 of the 15.75 of 16 lanes of PCIe 3.0, 12 of the 12.5 of a network of 100 Gbit/s)
/// and its latencies of a ring by the protocols Simple and LL (src/graph/tuning.cc). `ranks_per_node`:
/// parallel.ranks_per_node.
RankLinks links_between(std::span<const GpusOfRanks> gpus, std::int64_t ranks_per_node);

/// What ranks tell each other by an op; nothing where it is no exchange.
struct Exchange {
  RankGroup ranks{};
  std::int64_t sent_bytes = 0;      ///< by a rank, which receives as many, but of two stages one sends
  std::int64_t received_bytes = 0;  ///< of the other stage
  std::int64_t num_calls = 1;       ///< of the library that carries it
  std::int64_t num_rounds = 0;      ///< times that all wait for something of all others
};
Exchange exchange_of(const Op& op);

/// Machines that some ranks stand on.
std::int64_t num_nodes(const RankGroup& ranks, const RankLinks& links);

/// The link that all wait for where these ranks exchange something, of which a machine with several sends at the sum
/// of their shares; nothing where one of those in use is not known, or there is one rank.
std::optional<LinkRate> slowest_link(const RankGroup& ranks, const RankLinks& links);

/// Seconds that an exchange takes; nothing where a link that it takes is not known.
std::optional<double> exchange_seconds(const Exchange& exchange, const RankLinks& links);

}  // namespace trainer
