#include "engine/ranks/rank_communicator.h"

#include <exception>
#include <utility>

namespace trainer {

RankCommunicator::RankCommunicator(const RankEnvironment& environment)
    : environment_(environment),
      processes_(static_cast<std::size_t>(environment.size)),
      traffic_(static_cast<std::size_t>(environment.size)) {}

void RankCommunicator::begin(std::vector<Socket> words, double timeout_seconds) {
  watch_ = std::make_unique<RankWatch>(rank(), std::move(words), timeout_seconds);
  find_direct();
}

void RankCommunicator::leave() noexcept {
  const std::uint8_t is_here = 1;
  std::vector<std::uint8_t> are_here(static_cast<std::size_t>(size()));
  std::vector<SentBytes> sends;
  std::vector<ReceivedBytes> receives;
  for (int other = 0; other < size(); ++other) {
    if (other == rank()) continue;
    sends.push_back({other, &is_here, 1});
    receives.push_back({other, &are_here[static_cast<std::size_t>(other)], 1});
  }
  try {
    exchange(sends, receives);
    end();
  } catch (const std::exception&) {  // this rank has done all that it had to do
  }
}

void RankCommunicator::find_direct() {
  const DirectProbe own = make_direct_probe();
  const auto num_ranks = static_cast<std::size_t>(size());
  std::vector<DirectProbe> probes(num_ranks);
  std::vector<std::uint8_t> mine(num_ranks), theirs(num_ranks);
  std::vector<SentBytes> sends;
  std::vector<ReceivedBytes> receives;
  const auto tell_all = [&](auto&& sent, auto&& received) {
    sends.clear();
    receives.clear();
    for (int other = 0; other < size(); ++other) {
      if (other == rank()) continue;
      sends.push_back(sent(other));
      receives.push_back(received(other));
    }
    exchange(sends, receives);
  };
  tell_all(
      [&](int other) {
        return SentBytes{other, &own, sizeof own};
      },
      [&](int other) {
        return ReceivedBytes{other, &probes[static_cast<std::size_t>(other)], sizeof own};
      });
  for (std::size_t other = 0; other < num_ranks; ++other)
    mine[other] = static_cast<int>(other) != rank() && can_read(probes[other]) ? 1 : 0;
  tell_all(
      [&](int other) {
        return SentBytes{other, &mine[static_cast<std::size_t>(other)], 1};
      },
      [&](int other) {
        return ReceivedBytes{other, &theirs[static_cast<std::size_t>(other)], 1};
      });
  for (std::size_t other = 0; other < num_ranks; ++other)
    if (mine[other] != 0 && theirs[other] != 0) processes_[other] = probes[other].process;
}

void RankCommunicator::exchange(std::span<const SentBytes> sends, std::span<const ReceivedBytes> receives) {
  const auto num_ranks = static_cast<std::size_t>(size());
  std::vector<std::vector<iovec>> pieces(num_ranks);
  std::vector<std::vector<ReceivedBytes>> read(num_ranks);
  std::vector<DirectPlace> own_places(num_ranks), their_places(num_ranks);
  std::vector<std::int64_t> num_sent(num_ranks), num_received(num_ranks);
  for (Traffic& traffic : traffic_) {
    traffic.sends.clear();
    traffic.receives.clear();
  }
  for (const SentBytes& each : sends) num_sent[static_cast<std::size_t>(each.to)] += each.num_bytes;
  for (const ReceivedBytes& each : receives) num_received[static_cast<std::size_t>(each.from)] += each.num_bytes;
  for (const SentBytes& each : sends) {
    const auto to = static_cast<std::size_t>(each.to);
    if (each.num_bytes == 0) continue;
    if (is_direct(each.to, num_sent[to]))
      pieces[to].push_back({const_cast<void*>(each.bytes), static_cast<std::size_t>(each.num_bytes)});
    else
      traffic_[to].sends.push_back(each);
  }
  for (const ReceivedBytes& each : receives) {
    const auto from = static_cast<std::size_t>(each.from);
    if (each.num_bytes == 0) continue;
    (is_direct(each.from, num_received[from]) ? read[from] : traffic_[from].receives).push_back(each);
  }
  for (int other = 0; other < size(); ++other) {
    const auto o = static_cast<std::size_t>(other);
    if (!pieces[o].empty()) {
      own_places[o] = {reinterpret_cast<std::uint64_t>(pieces[o].data()), pieces[o].size()};
      traffic_[o].sends.push_back({other, &own_places[o], sizeof(DirectPlace)});
    }
    if (!read[o].empty()) traffic_[o].receives.push_back({other, &their_places[o], sizeof(DirectPlace)});
  }
  carry(traffic_);
  // What was read may be changed once that is known.
  constexpr std::uint8_t is_read = 1;
  std::vector<std::uint8_t> were_read(num_ranks);
  bool has_direct = false;
  for (int other = 0; other < size(); ++other) {
    const auto o = static_cast<std::size_t>(other);
    traffic_[o].sends.clear();
    traffic_[o].receives.clear();
    if (!read[o].empty()) {
      if (!read_directly(processes_[o], their_places[o], read[o])) watch_->fail(other);
      traffic_[o].sends.push_back({other, &is_read, 1});
    }
    if (!pieces[o].empty()) traffic_[o].receives.push_back({other, &were_read[o], 1});
    has_direct = has_direct || !read[o].empty() || !pieces[o].empty();
  }
  if (has_direct) carry(traffic_);
}

}  // namespace trainer
