#include "cuda/library/group_links.h"

#include <algorithm>
#include <utility>

#include "cuda/model/rank_sums.h"
#include "engine/device/group_communicator.h"
#include "engine/errors.h"

namespace trainer::cuda {

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
