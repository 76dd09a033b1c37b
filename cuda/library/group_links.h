#pragma once

#include <memory>
#include <vector>

#include "cuda/library/rank_link.h"
#include "engine/rank_layout.h"

namespace trainer::cuda {

/// This rank's communicators: Note [Groups of ranks] in cuda/model/rank_sums.h.
class GroupLinks {
 public:
  /// Returns when all ranks have come. `ranks`, as many as `layout` has, and `nccl` outlive it. Throws as RankLink.
  GroupLinks(const Nccl& nccl, Communicator& ranks, const RankLayout& layout, const RankLinkOptions& options);
  ~GroupLinks();

  /// In which ranks have the numbers that they have in the run.
  RankLink& all() { return *links_.front().link; }
  /// In which ranks have their places in `ranks` for numbers; throws InternalError for ranks that are not linked.
  RankLink& among(const RankGroup& ranks);
  /// Each of them, all ranks' first.
  template <typename Visit>
  void for_each(Visit visit) {
    for (const GroupLink& each : links_) visit(*each.link);
  }

  /// As RankLink, of any group.
  void check() const;
  void check_soon() const { links_.front().link->check_soon(); }

 private:
  struct GroupLink {
    RankGroup ranks;
    std::unique_ptr<Communicator> members;
    std::unique_ptr<RankLink> link;
  };
  std::vector<GroupLink> links_;
};

}  // namespace trainer::cuda
