#pragma once

#include "engine/errors.h"

namespace trainer {

/// What rank 0, which tells of all others, does not hear of: it is the one that is gone, or was never reached. Who
/// finds it tells it.
class UntoldRankError final : public RankError {
 public:
  using RankError::RankError;
};

}  // namespace trainer
