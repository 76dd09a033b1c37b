#pragma once

#include <vector>

#include "engine/device/communicator.h"
#include "engine/errors.h"
#include "engine/rank_layout.h"

namespace trainer {

/// Some of the ranks of a communicator, numbered by their places among them; this one must be one of them.
class GroupCommunicator final : public Communicator {
 public:
  /// `all` must outlive it.
  GroupCommunicator(Communicator& all, const RankGroup& group) : all_(all), group_(group) {
    const std::int64_t distance = all.rank() - group.first;
    require_internal(distance >= 0 && distance % group.stride == 0 && distance / group.stride < group.count &&
                         group.last() < all.size(),
                     "a rank tells something to those of its group");
    place_ = static_cast<int>(distance / group.stride);
  }

  int rank() const override { return place_; }
  int size() const override { return static_cast<int>(group_.count); }

  void exchange(std::span<const SentBytes> sends, std::span<const ReceivedBytes> receives) override {
    if (group_ == RankGroup{all_.size()}) return all_.exchange(sends, receives);
    sends_.assign(sends.begin(), sends.end());
    for (SentBytes& sent : sends_) sent.to = static_cast<int>(group_.rank_at(sent.to));
    receives_.assign(receives.begin(), receives.end());
    for (ReceivedBytes& received : receives_) received.from = static_cast<int>(group_.rank_at(received.from));
    all_.exchange(sends_, receives_);
  }

  void check() const override { all_.check(); }
  int failure_descriptor() const override { return all_.failure_descriptor(); }

 private:
  Communicator& all_;
  const RankGroup group_;
  int place_ = 0;
  std::vector<SentBytes> sends_;
  std::vector<ReceivedBytes> receives_;
};

}  // namespace trainer
