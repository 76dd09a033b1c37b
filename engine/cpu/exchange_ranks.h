#pragma once

#include <memory>

#include "engine/cpu/cpu_context.h"
#include "engine/device/group_communicator.h"

namespace trainer {

/// Those that a kernel exchanges something with, by their places in a group.
class ExchangeRanks {
 public:
  ExchangeRanks(const CpuContext& context, const RankGroup& group) : context_(context), group_(group) {}

  int size() const { return static_cast<int>(group_.count); }
  /// Only where there are several, once the device has a communicator.
  Communicator& reach() {
    if (!ranks_) {
      require_internal(context_.communicator != nullptr, "ranks reach one another");
      ranks_ = std::make_unique<GroupCommunicator>(*context_.communicator, group_);
    }
    return *ranks_;
  }

 private:
  const CpuContext& context_;
  RankGroup group_;
  std::unique_ptr<GroupCommunicator> ranks_;
};

}  // namespace trainer
