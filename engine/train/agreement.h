#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

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

/// What rank `from` says, on all ranks.
std::string text_of_rank(Communicator& ranks, int from, std::string text);

/// Throws DataError on all ranks where something has failed on one, what the lowest says of it; empty: nothing has.
/// (RankError with the same text on one that hears first that rank 0 ends for it.)
void fail_together(Communicator* ranks, const std::string& failure);

/// Rank 0 gets as many bytes of each rank, which has them at `mine`, one behind the other at `all`.
void gather_to_first(Communicator& ranks, const void* mine, std::int64_t num_bytes, void* all);
/// The same for a number or a struct of them, by rank; empty but on rank 0.
template <typename T>
std::vector<T> gathered_by_first(Communicator& ranks, const T& mine) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all(ranks.rank() == 0 ? static_cast<std::size_t>(ranks.size()) : 0);
  gather_to_first(ranks, &mine, sizeof mine, all.data());
  return all;
}

}  // namespace trainer
