#include "cuda/model/rank_sums.h"

#include <algorithm>

namespace trainer::cuda {

std::vector<LinkedGroup> linked_groups(const RankLayout& layout) {
  std::vector<LinkedGroup> groups;
  const auto add = [&](const RankGroup& ranks, bool carries_tensors) {
    if (ranks.count == 1) return;
    const auto known =
        std::find_if(groups.begin(), groups.end(), [&](const LinkedGroup& group) { return group.ranks == ranks; });
    if (known == groups.end())
      groups.push_back({ranks, carries_tensors});
    else
      known->carries_tensors = known->carries_tensors || carries_tensors;
  };
  add(layout.all(), layout.num_stages > 1);
  add(layout.data_group(), true);
  add(layout.tensor_group(), true);
  add(layout.sample_group(), false);
  add(layout.pipeline_group(), false);
  return groups;
}

}  // namespace trainer::cuda
