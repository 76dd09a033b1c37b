#pragma once

#include <cstdint>
#include <string>

namespace trainer {

/// How passes (micro-batches, updates, batches of an evaluation) reached the device.
struct PassCounts {
  std::int64_t total = 0;
  std::int64_t replayed = 0;  ///< as one recording (a CUDA graph), or a few between which ranks tell each other tensors
  std::int64_t moved = 0;     ///< not, because buffers lay elsewhere than in the pass before
  std::int64_t branches = 0;  ///< calls of one pass that run beside others, in the recorded pass with most of them
  bool can_replay = true;     ///< false on a device that does not run ahead of the host, or records nothing
  std::string obstacle;       ///< why none is replayed at all: "--debug-sync"; empty: they are, where buffers stay
};

}  // namespace trainer
