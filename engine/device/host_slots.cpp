#include "engine/device/host_slots.h"

#include <cstring>
#include <new>

#include "engine/bytes.h"
#include "engine/errors.h"

namespace trainer {

std::byte* HostSlots::reserve(std::int32_t slot, std::int64_t num_bytes) {
  // The first that suffices: requests that once had the same answer always do.
  std::vector<Piece>& pieces = pieces_[slot];
  for (Piece& piece : pieces)
    if (piece.num_bytes >= num_bytes) return piece.memory->data();
  const auto refuse = [&](const std::string& reason) {
    return DeviceError("no host memory for activations: " + format_bytes(held_bytes_) + " hold some, and " +
                       format_bytes(num_bytes) + " more were refused (" + reason +
                       "); name fewer layers in memory.offload, or use memory.offload=off");
  };
  std::unique_ptr<HostMemory> memory;
  try {
    memory = make_(num_bytes);
  } catch (const DeviceError& error) {
    throw refuse(error.what());
  } catch (const std::bad_alloc&) {
    throw refuse("the system has none left");
  }
  // Touched here, so that no step waits for pages.
  std::memset(memory->data(), 0, static_cast<std::size_t>(num_bytes));
  held_bytes_ += num_bytes;
  pieces.push_back({num_bytes, std::move(memory)});
  return pieces.back().memory->data();
}

}  // namespace trainer
