#include "cuda/library/group_links.h"

#include <algorithm>
#include <utility>

#include "cuda/model/rank_sums.h"
#include "engine/errors.h"

namespace trainer::cuda {
namespace {

/// Ranks of a group as ranks 0 … count − 1, over what reaches all ranks.
class GroupCommunicator final : public Communicator {
 public:
  GroupCommunicator(Communicator& all, const RankGroup& group) : all_(all), group_(group) {}

  int rank() const override { return static_cast<int>((all_.rank() - group_.first) / group_.stride); }
  int size() const override { return static_cast<int>(group_.count); }
  void exchange(std::span<const SentBytes> sends, std::span<const ReceivedBytes> receives) override {
    std::vector<SentBytes> sent(sends.begin(), sends.end());
    for (SentBytes& each : sent) each.to = number_of(each.to);
    std::vector<ReceivedBytes> received(receives.begin(), receives.end());
    for (ReceivedBytes& each : received) each.from = number_of(each.from);
    all_.exchange(sent, received);
  }
  void check() const override { all_.check(); }
  int failure_descriptor() const override { return all_.failure_descriptor(); }

 private:
  int number_of(int place) const { return static_cast<int>(group_.rank_at(place)); }

  Communicator& all_;
  const RankGroup group_;
};

}  // namespace

GroupLinks::GroupLinks(const Nccl& nccl, Communicator& ranks, const RankLayout& layout,
                       const RankLinkOptions& options) {
  require_internal(layout.num_ranks() == ranks.size() && layout.rank == ranks.rank(),
                   "the ranks that meet are those of the layout");
  std::vector<LinkedGroup> groups = linked_groups(layout);
  if (groups.empty()) groups.push_back({layout.all()});
  for (const LinkedGroup& group : groups) {
    RankLinkOptions of_group = options;
    if (!group.carries_tensors) of_group.max_ctas = 1;
    auto members = std::make_unique<GroupCommunicator>(ranks, group.ranks);
    auto link = std::make_unique<RankLink>(nccl, *members, std::move(of_group));
    links_.push_back({group.ranks, std::move(members), std::move(link)});
  }
}

GroupLinks::~GroupLinks() = default;

RankLink& GroupLinks::among(const RankGroup& ranks) {
  const auto found =
      std::find_if(links_.begin(), links_.end(), [&](const GroupLink& each) { return each.ranks == ranks; });
  require_internal(found != links_.end(), "a group of ranks that adds up has a communicator");
  return *found->link;
}

void GroupLinks::check() const {
  for (const GroupLink& each : links_) each.link->check();
}

}  // namespace trainer::cuda
