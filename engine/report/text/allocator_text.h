#pragma once

#include "engine/config/experiment.h"

namespace trainer {

/// As memory.allocator names it.
constexpr const char* allocator_name(AllocatorKind kind) {
  switch (kind) {
    case AllocatorKind::automatic:
      return "auto";
    case AllocatorKind::caching:
      return "caching";
    case AllocatorKind::planned:
      return "planned";
  }
  return "";
}

}  // namespace trainer
