#pragma once

#include <cstdint>
#include <span>

#include "engine/rank_layout.h"
#include "engine/shape.h"

namespace trainer {

struct Op;

// Note [Started exchanges]
// ~~~~~~~~~~~~~~~~~~~~~~~~
// What ranks tell each other takes time in which they could compute. So all exchanges but broadcasts may be but
// started: what is queued before them is done first, and what follows runs beside them until finish_exchange waits.
// Until then their operands and scratch are neither read, written nor released.
//
// Exchanges among the same ranks run one after the other in the order in which they stand, started ones or not: one
// that is not started waits for all of them before it. A CPU has one order for all of them, and a GPU one for those
// that go through the communicator of all ranks. So the order is the same on ranks of which some start an exchange and
// others, without samples, do not. A finish tells by its operands what it waits for, wherever it stands: the last
// exchange that was started with one of them, and so all before that.

/// inputs: what the exchanges that it waits for read and write [modified: now it holds what they wrote]; no outputs.
Op finish_exchange_op(std::span<const TensorType> tensors);

/// Whether ranks tell each other something by `op`, and do not but wait until they have. One that computes as well has
/// another role than Role::communication, and is always run to its end.
bool is_exchange(const Op& op);
/// Whether it is one, or waits for some.
bool communicates(const Op& op);
/// Those that tell each other something by an exchange.
const RankGroup& ranks_of(const Op& exchange);

/// `op`, which communicates, to be started alone, or to be run to its end.
Op started(Op op);
Op to_its_end(Op op);
bool is_started(const Op& op);

}  // namespace trainer
