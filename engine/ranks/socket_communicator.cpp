#include "engine/ranks/socket_communicator.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

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

/// Where a rank waits.
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
}

void SocketCommunicator::meet(double timeout_seconds, std::vector<Socket>& words) {
  const TimeLeft left(timeout_seconds);
  const bool is_local = environment_.num_local == size();
  const Socket waiting = Socket::listen(rank() == 0 ? environment_.port : 0, is_local);
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
      call(other, place.address.data(), place.port);
    }
  }
  // Those behind this rank call it, in any order.
  for (int num_calls = 2 * (size() - 1 - rank()); num_calls > 0;) {
    Socket socket = waiting.accept(left.seconds());
    if (!socket.is_open()) {
      std::string missing;
      for (int other = rank() + 1; other < size(); ++other)
        if (!words[static_cast<std::size_t>(other)].is_open())
          missing += fmt::format("{}{}", missing.empty() ? "" : ", ", other);
      throw RankError(ExitCode::device, fmt::format("of {} ranks {} did not come within {:.0f} s (parallel.timeout)",
                                                    size(), missing, timeout_seconds));
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
    address.copy(places[other].address.data(), places[other].address.size() - 1);
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
  for (Traffic& traffic : traffic_) {
    traffic.sends.clear();
    traffic.receives.clear();
    traffic.next_send = traffic.next_receive = 0;
  }
  for (const SentBytes& each : sends)
    if (each.num_bytes > 0) traffic_[static_cast<std::size_t>(each.to)].sends.push_back(each);
  for (const ReceivedBytes& each : receives)
    if (each.num_bytes > 0) traffic_[static_cast<std::size_t>(each.from)].receives.push_back(each);

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
