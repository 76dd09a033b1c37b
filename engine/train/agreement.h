#pragma once

#include <cstdint>
#include <optional>

#include "engine/device/communicator.h"

namespace trainer {

/// The lowest rank that says so, on all ranks, each of which asks at the same place; nothing where none does. `ranks`
/// may be null: there is one.
std::optional<int> first_rank(Communicator* ranks, bool mine);

/// Whether any rank says so.
inline bool any_rank(Communicator* ranks, bool mine) { return first_rank(ranks, mine).has_value(); }

/// Waits until all ranks have come here.
inline void meet_ranks(Communicator* ranks) { first_rank(ranks, false); }

/// Whether all ranks have the number of rank 0, on all of them, each of which asks at the same place.
bool all_have(Communicator* ranks, std::uint64_t mine);

}  // namespace trainer
