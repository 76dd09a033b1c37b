#pragma once

#include <memory>
#include <optional>

#include "cuda/library/attention.h"

namespace trainer::cuda {

/// The attention that `call` describes, on host memory, by the obvious loops in double. run() throws InternalError
/// where an operand is missing or given in vain, and writes over all of the workspace.
std::shared_ptr<FusedAttention> make_host_attention(const AttentionCall& call);

/// Plans for make_host_attention, which serves every call within whose limit its scratch is: forward 256 bytes,
/// backward a number that no other call's is likely to equal.
class HostAttentionPlanner final : public AttentionPlanner {
 public:
  std::optional<std::int64_t> workspace_bytes(const AttentionCall& call) override;
};

}  // namespace trainer::cuda
