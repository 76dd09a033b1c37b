#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/device/communicator.h"
#include "engine/train/executor.h"

namespace trainer {

/// All ranks get what they hold together.
inline constexpr int all_receive = -1;

/// Executor::read of bytes of a tensor, also those that other ranks hold. Of a buffer that has a part of its tensor all
/// ranks call it alike; `to` has room on all of them, and is whole on `receiver`: a rank, or all_receive. `ranks`: null
/// where there is one.
void read_shared(Executor& executor, Communicator* ranks, BufferId buffer, std::int64_t offset, std::int64_t num_bytes,
                 std::byte* to, int receiver);

}  // namespace trainer
