#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstdint>
#include <span>

#include "engine/device/communicator.h"

namespace trainer {

// Note [Ranks on one machine]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~
// What a rank sends to another on its machine is read by that one from the sender's memory, once, by the system
// (process_vm_readv): nothing is copied in between. Over their connection goes where it lies, and behind the reading
// that it may be changed. Whether a system lets them is tried when they meet, by a number that only the right process
// has at that address; where it does not, their connection carries the bytes.

/// Where a rank has what it sends to one other: pieces, one behind the other.
struct DirectPlace {
  std::uint64_t pieces = 0;  ///< address of their iovec
  std::uint64_t count = 0;
};

/// Which process a rank is, and something to find there.
struct DirectProbe {
  std::int64_t process = 0;
  std::uint64_t address = 0, number = 0;
};

/// Of this process; the number stays where it is.
DirectProbe make_direct_probe();
/// Whether that process' memory can be read.
bool can_read(const DirectProbe& probe);

/// Fills `receives`, one behind the other, with the pieces at `place`; false where the system refuses, or the process
/// is gone.
bool read_directly(std::int64_t process, const DirectPlace& place, std::span<const ReceivedBytes> receives);

}  // namespace trainer
