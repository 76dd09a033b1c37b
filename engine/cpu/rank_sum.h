#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/shape.h"

namespace trainer {

/// Adds up `count` numbers of every rank, which `addends` has by rank, in the order of Note [Sums over ranks]. Where
/// `adds` that is added to what `sum` holds. `sum` may be one of the addends.
void sum_over_ranks(int num_threads, DType type, std::span<const std::byte* const> addends, std::byte* sum,
                    std::int64_t count, bool adds = false);

}  // namespace trainer
