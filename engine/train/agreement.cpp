#include "engine/train/agreement.h"

#include <array>
#include <vector>

namespace trainer {

std::optional<int> first_rank(Communicator* ranks, bool mine) {
  if (ranks == nullptr || ranks->size() == 1) return mine ? std::optional(0) : std::nullopt;
  constexpr std::int32_t none = -1;
  std::int32_t first = none;
  if (ranks->rank() != 0) {
    const std::uint8_t said = mine ? 1 : 0;
    ranks->exchange(std::array{SentBytes{0, &said, sizeof said}}, {});
    ranks->exchange({}, std::array{ReceivedBytes{0, &first, sizeof first}});
  } else {
    std::vector<std::uint8_t> said(static_cast<std::size_t>(ranks->size()));
    std::vector<ReceivedBytes> receives;
    std::vector<SentBytes> sends;
    for (int rank = 1; rank < ranks->size(); ++rank) {
      receives.push_back({rank, &said[static_cast<std::size_t>(rank)], 1});
      sends.push_back({rank, &first, sizeof first});
    }
    ranks->exchange({}, receives);
    said[0] = mine ? 1 : 0;
    for (int rank = ranks->size() - 1; rank >= 0; --rank)
      if (said[static_cast<std::size_t>(rank)] != 0) first = rank;
    ranks->exchange(sends, {});
  }
  return first == none ? std::nullopt : std::optional<int>(first);
}

bool all_have(Communicator* ranks, std::uint64_t mine) {
  if (ranks == nullptr || ranks->size() == 1) return true;
  std::uint64_t first = mine;
  std::vector<SentBytes> sends;
  for (int rank = 1; ranks->rank() == 0 && rank < ranks->size(); ++rank) sends.push_back({rank, &mine, sizeof mine});
  if (ranks->rank() == 0)
    ranks->exchange(sends, {});
  else
    ranks->exchange({}, std::array{ReceivedBytes{0, &first, sizeof first}});
  return !any_rank(ranks, first != mine);
}

}  // namespace trainer
