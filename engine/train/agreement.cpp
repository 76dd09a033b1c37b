#include "engine/train/agreement.h"

#include <array>
#include <cstring>
#include <vector>

#include "engine/errors.h"

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

std::string text_of_rank(Communicator& ranks, int from, std::string text) {
  auto size = static_cast<std::int64_t>(text.size());
  if (ranks.rank() == from) {
    std::vector<SentBytes> sizes, texts;
    for (int rank = 0; rank < ranks.size(); ++rank) {
      if (rank == from) continue;
      sizes.push_back({rank, &size, sizeof size});
      texts.push_back({rank, text.data(), size});
    }
    ranks.exchange(sizes, {});
    if (size > 0) ranks.exchange(texts, {});
    return text;
  }
  ranks.exchange({}, std::array{ReceivedBytes{from, &size, sizeof size}});
  text.assign(static_cast<std::size_t>(size), '\0');
  if (size > 0) ranks.exchange({}, std::array{ReceivedBytes{from, text.data(), size}});
  return text;
}

void fail_together(Communicator* ranks, const std::string& failure) {
  const std::optional<int> first = first_rank(ranks, !failure.empty());
  if (!first) return;
  if (ranks == nullptr) throw DataError(failure);
  const std::string text = text_of_rank(*ranks, *first, failure);
  meet_ranks(ranks);  // who throws tells the others that it ends
  throw DataError(text);
}

void gather_to_first(Communicator& ranks, const void* mine, std::int64_t num_bytes, void* all) {
  if (ranks.rank() != 0) return ranks.exchange(std::array{SentBytes{0, mine, num_bytes}}, {});
  std::memcpy(all, mine, static_cast<std::size_t>(num_bytes));
  std::vector<ReceivedBytes> receives;
  for (int rank = 1; rank < ranks.size(); ++rank)
    receives.push_back({rank, static_cast<std::byte*>(all) + rank * num_bytes, num_bytes});
  ranks.exchange({}, receives);
}

}  // namespace trainer
