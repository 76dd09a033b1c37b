#include "datasets/text/piece_merger.h"

#include <algorithm>
#include <array>

namespace trainer {
namespace {

constexpr std::size_t most_short_tokens = 48;
constexpr std::uint32_t no_merge = UINT32_MAX;
constexpr TokenId merged_away = UINT32_MAX;

}  // namespace

std::size_t PieceMerger::merge(const MergeTable& merges, std::span<TokenId> ids) {
  return ids.size() <= most_short_tokens ? merge_short(merges, ids) : merge_long(merges, ids);
}

std::size_t PieceMerger::merge_short(const MergeTable& merges, std::span<TokenId> ids) {
  std::array<std::uint32_t, most_short_tokens> ranks{};  // of each token with the next
  std::array<TokenId, most_short_tokens> results{};
  std::size_t count = ids.size();
  const auto look_up = [&](std::size_t i) {
    const MergeTable::Entry* const entry = merges.find(ids[i], ids[i + 1]);
    ranks[i] = entry != nullptr ? entry->rank : no_merge;
    results[i] = entry != nullptr ? entry->result : 0;
  };
  for (std::size_t i = 0; i + 1 < count; ++i) look_up(i);
  while (count > 1) {
    std::size_t least = 0;
    for (std::size_t i = 1; i + 1 < count; ++i)
      if (ranks[i] < ranks[least]) least = i;
    if (ranks[least] == no_merge) break;
    ids[least] = results[least];
    for (std::size_t i = least + 1; i + 1 < count; ++i) {
      ids[i] = ids[i + 1];
      ranks[i] = ranks[i + 1];
      results[i] = results[i + 1];
    }
    --count;
    if (least > 0) look_up(least - 1);
    if (least + 1 < count) look_up(least);
  }
  return count;
}

void PieceMerger::add_candidate(const MergeTable& merges, std::span<const TokenId> ids, std::size_t at) {
  const TokenId left = ids[at], right = ids[next_[at]];
  if (const MergeTable::Entry* const entry = merges.find(left, right)) heap_.push_back({entry->rank, left, right, at});
}

std::size_t PieceMerger::merge_long(const MergeTable& merges, std::span<TokenId> ids) {
  const std::size_t count = ids.size();
  const auto is_later = [](const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
  };
  heap_.clear();
  next_.resize(count);
  previous_.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    next_[i] = i + 1;
    previous_[i] = i - 1;
  }
  for (std::size_t i = 0; i + 1 < count; ++i) add_candidate(merges, ids, i);
  std::make_heap(heap_.begin(), heap_.end(), is_later);
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), is_later);
    const Candidate candidate = heap_.back();
    heap_.pop_back();
    const std::size_t at = candidate.at, after = next_[at];
    if (ids[at] != candidate.left || after >= count || ids[after] != candidate.right) continue;
    ids[at] = merges.find(candidate.left, candidate.right)->result;
    ids[after] = merged_away;
    next_[at] = next_[after];
    if (next_[at] < count) previous_[next_[at]] = at;
    const auto push = [&](std::size_t i) {
      const std::size_t size = heap_.size();
      add_candidate(merges, ids, i);
      if (heap_.size() > size) std::push_heap(heap_.begin(), heap_.end(), is_later);
    };
    if (at > 0) push(previous_[at]);
    if (next_[at] < count) push(at);
  }
  std::size_t left = 0;
  for (std::size_t i = 0; i < count; i = next_[i]) ids[left++] = ids[i];
  return left;
}

}  // namespace trainer
