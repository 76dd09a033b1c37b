#include "engine/ranks/socket_communicator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>

#include "engine/ranks/untold_rank_error.h"

namespace trainer {
namespace {

/// What a connection begins with.
struct Hello {
  static constexpr std::uint64_t trainers = 0x31736b6e61727274;  // "trranks1"

  std::uint64_t magic = trainers;
  std::int32_t rank = 0, size = 0;
  std::int32_t is_for_words = 0;
  std::int32_t port = 0;  ///< where the rank waits itself
};

/// Where a rank waits. Without an address on the machine of rank 0, which each finds by a name of its own.
struct RankPlace {
  std::array<char, 64> address{};
  std::int32_t port = 0;
};

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}
template <typename T>
std::span<std::byte> writable_bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

/// Whether nobody on another machine can mean this one by it.
bool is_of_this_machine(std::string_view address) {
  return address.starts_with("127.") || address.starts_with("::ffff:127.") || address == "::1";
}

/// Time that is left of what all of the meeting may take.
class TimeLeft {
 public:
  explicit TimeLeft(double seconds)
      : end_(Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))) {}
  double seconds() const { return std::max(std::chrono::duration<double>(end_ - Clock::now()).count(), 0.0); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point end_;
};

}  // namespace

SocketCommunicator::SocketCommunicator(const RankEnvironment& environment, double timeout_seconds)
    : environment_(environment), traffic_(static_cast<std::size_t>(environment.size)) {
  std::vector<Socket> words(static_cast<std::size_t>(size()));
  sockets_.resize(static_cast<std::size_t>(size()));
  meet(timeout_seconds, words);
  for (const Socket& socket : sockets_)
    if (socket.is_open()) socket.set_blocking(false);
  watch_ = std::make_unique<RankWatch>(rank(), std::move(words), timeout_seconds);
  processes_.resize(static_cast<std::size_t>(size()));
  find_direct();
}

void SocketCommunicator::find_direct() {
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

void SocketCommunicator::meet(double timeout_seconds, std::vector<Socket>& words) {
  const TimeLeft left(timeout_seconds);
  // A name of this machine may be that of an address which others reach it by.
  const Socket waiting = Socket::listen(rank() == 0 ? environment_.port : 0, is_of_this_machine(environment_.address));
  std::vector<RankPlace> places(static_cast<std::size_t>(size()));

  const auto call = [&](int other, const std::string& address, int port) {
    for (const bool is_for_words : {false, true}) {
      Socket socket = Socket::connect(address, port, left.seconds());
      socket.send(
          bytes_of(Hello{.rank = rank(), .size = size(), .is_for_words = is_for_words, .port = waiting.port()}));
      (is_for_words ? words : sockets_)[static_cast<std::size_t>(other)] = std::move(socket);
    }
  };
  if (rank() > 0) {
    call(0, environment_.address, environment_.port);
    if (!sockets_[0].receive(std::as_writable_bytes(std::span(places)), left.seconds() + 1))
      throw RankError(
          ExitCode::device,
          fmt::format("not all of {} ranks have come within {:.0f} s, or rank 0 has ended", size(), timeout_seconds));
    for (int other = 1; other < rank(); ++other) {
      const RankPlace& place = places[static_cast<std::size_t>(other)];
      call(other, place.address[0] == '\0' ? environment_.address : place.address.data(), place.port);
    }
  }
  // Those behind this rank call it, in any order.
  for (int num_calls = 2 * (size() - 1 - rank()); num_calls > 0;) {
    Socket socket = waiting.accept(left.seconds());
    if (!socket.is_open()) {
      std::vector<int> missing;
      for (int other = rank() + 1; other < size(); ++other)
        if (!words[static_cast<std::size_t>(other)].is_open()) missing.push_back(other);
      constexpr std::size_t most_named = 8;
      const std::size_t more = missing.size() - std::min(missing.size(), most_named);
      missing.resize(missing.size() - more);
      throw UntoldRankError(
          ExitCode::device,
          fmt::format("of {} ranks {}{} did not come within {:.0f} s (parallel.timeout)", size(),
                      fmt::join(missing, ", "), more > 0 ? fmt::format(" and {} more", more) : "", timeout_seconds));
    }
    Hello hello;
    constexpr double seconds_of_hello = 5;
    if (!socket.receive(writable_bytes_of(hello), seconds_of_hello) || hello.magic != Hello::trainers)
      continue;  // somebody else's call
    if (hello.size != size())
      throw RankError(ExitCode::config, fmt::format("rank {} is one of {} ranks, and rank {} one of {}", hello.rank,
                                                    hello.size, rank(), size()));
    if (hello.rank <= rank() || hello.rank >= size()) continue;
    const auto other = static_cast<std::size_t>(hello.rank);
    Socket& place = (hello.is_for_words != 0 ? words : sockets_)[other];
    if (place.is_open())
      throw RankError(ExitCode::config,
                      fmt::format("two processes are rank {}: is another run at port {}? MASTER_PORT names another",
                                  hello.rank, environment_.port));
    const std::string address = socket.peer_address();
    if (!is_of_this_machine(address)) address.copy(places[other].address.data(), places[other].address.size() - 1);
    places[other].port = hello.port;
    place = std::move(socket);
    --num_calls;
  }
  if (rank() == 0)
    for (int other = 1; other < size(); ++other)
      sockets_[static_cast<std::size_t>(other)].send(std::as_bytes(std::span(places)));
}

bool SocketCommunicator::send_some(int rank, Traffic& traffic) {
  std::array<iovec, 64> parts;
  std::size_t count = 0;
  for (std::size_t i = traffic.next_send; i < traffic.sends.size() && count < parts.size(); ++i)
    parts[count++] = {const_cast<void*>(traffic.sends[i].bytes), static_cast<std::size_t>(traffic.sends[i].num_bytes)};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = count;
  ssize_t sent = ::sendmsg(sockets_[static_cast<std::size_t>(rank)].descriptor(), &message, MSG_NOSIGNAL);
  if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (sent < 0) watch_->fail(rank);
  while (traffic.is_sending()) {
    SentBytes& part = traffic.sends[traffic.next_send];
    const auto done = std::min<std::int64_t>(sent, part.num_bytes);
    part.bytes = static_cast<const std::byte*>(part.bytes) + done;
    part.num_bytes -= done;
    sent -= done;
    if (part.num_bytes > 0) break;
    ++traffic.next_send;
  }
  return true;
}

bool SocketCommunicator::receive_some(int rank, Traffic& traffic) {
  std::array<iovec, 64> parts;
  std::size_t count = 0;
  for (std::size_t i = traffic.next_receive; i < traffic.receives.size() && count < parts.size(); ++i)
    parts[count++] = {traffic.receives[i].bytes, static_cast<std::size_t>(traffic.receives[i].num_bytes)};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = count;
  ssize_t got = ::recvmsg(sockets_[static_cast<std::size_t>(rank)].descriptor(), &message, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (got <= 0) watch_->fail(rank);
  while (traffic.is_receiving()) {
    ReceivedBytes& part = traffic.receives[traffic.next_receive];
    const auto done = std::min<std::int64_t>(got, part.num_bytes);
    part.bytes = static_cast<std::byte*>(part.bytes) + done;
    part.num_bytes -= done;
    got -= done;
    if (part.num_bytes > 0) break;
    ++traffic.next_receive;
  }
  return true;
}

void SocketCommunicator::exchange(std::span<const SentBytes> sends, std::span<const ReceivedBytes> receives) {
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
  carry();
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
  if (has_direct) carry();
}

void SocketCommunicator::carry() {
  for (Traffic& traffic : traffic_) traffic.next_send = traffic.next_receive = 0;
  std::vector<pollfd> waiting;
  while (true) {
    watch_->check();
    bool moves = false, is_done = true;
    waiting.clear();
    for (int other = 0; other < size(); ++other) {
      Traffic& traffic = traffic_[static_cast<std::size_t>(other)];
      if (traffic.is_sending()) moves = send_some(other, traffic) || moves;
      if (traffic.is_receiving()) moves = receive_some(other, traffic) || moves;
      const int events = (traffic.is_sending() ? POLLOUT : 0) | (traffic.is_receiving() ? POLLIN : 0);
      if (events == 0) continue;
      is_done = false;
      waiting.push_back({sockets_[static_cast<std::size_t>(other)].descriptor(), static_cast<short>(events), 0});
    }
    if (is_done) return;
    if (moves) continue;
    waiting.push_back({watch_->descriptor(), POLLIN, 0});
    ::poll(waiting.data(), waiting.size(), -1);
  }
}

}  // namespace trainer
