#include "engine/ranks/socket_communicator.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "engine/ranks/rank_meeting.h"

namespace trainer {

SocketCommunicator::SocketCommunicator(const RankEnvironment& environment, double timeout_seconds)
    : RankCommunicator(environment), flows_(static_cast<std::size_t>(environment.size)) {
  RankConnections connections = connect_ranks(environment, Carrier::tcp, timeout_seconds);
  sockets_ = std::move(connections.tensors);
  for (const Socket& socket : sockets_)
    if (socket.is_open()) socket.set_blocking(false);
  begin(std::move(connections.words), timeout_seconds);
}

bool SocketCommunicator::send_some(int rank, Flow& flow) {
  std::array<iovec, 64> parts;
  std::size_t count = 0;
  for (std::size_t i = flow.next_send; i < flow.sends.size() && count < parts.size(); ++i)
    parts[count++] = {const_cast<void*>(flow.sends[i].bytes), static_cast<std::size_t>(flow.sends[i].num_bytes)};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = count;
  ssize_t sent = ::sendmsg(sockets_[static_cast<std::size_t>(rank)].descriptor(), &message, MSG_NOSIGNAL);
  if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (sent < 0) watch().fail(rank);
  while (flow.is_sending()) {
    SentBytes& part = flow.sends[flow.next_send];
    const auto done = std::min<std::int64_t>(sent, part.num_bytes);
    part.bytes = static_cast<const std::byte*>(part.bytes) + done;
    part.num_bytes -= done;
    sent -= done;
    if (part.num_bytes > 0) break;
    ++flow.next_send;
  }
  return true;
}

bool SocketCommunicator::receive_some(int rank, Flow& flow) {
  std::array<iovec, 64> parts;
  std::size_t count = 0;
  for (std::size_t i = flow.next_receive; i < flow.receives.size() && count < parts.size(); ++i)
    parts[count++] = {flow.receives[i].bytes, static_cast<std::size_t>(flow.receives[i].num_bytes)};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = count;
  ssize_t got = ::recvmsg(sockets_[static_cast<std::size_t>(rank)].descriptor(), &message, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (got <= 0) watch().fail(rank);
  while (flow.is_receiving()) {
    ReceivedBytes& part = flow.receives[flow.next_receive];
    const auto done = std::min<std::int64_t>(got, part.num_bytes);
    part.bytes = static_cast<std::byte*>(part.bytes) + done;
    part.num_bytes -= done;
    got -= done;
    if (part.num_bytes > 0) break;
    ++flow.next_receive;
  }
  return true;
}

void SocketCommunicator::carry(std::span<Traffic> by_rank) {
  for (std::size_t other = 0; other < by_rank.size(); ++other)
    flows_[other] = {by_rank[other].sends, by_rank[other].receives};
  std::vector<pollfd> waiting;
  while (true) {
    watch().check();
    bool moves = false, is_done = true;
    waiting.clear();
    for (int other = 0; other < size(); ++other) {
      Flow& flow = flows_[static_cast<std::size_t>(other)];
      if (flow.is_sending()) moves = send_some(other, flow) || moves;
      if (flow.is_receiving()) moves = receive_some(other, flow) || moves;
      const int events = (flow.is_sending() ? POLLOUT : 0) | (flow.is_receiving() ? POLLIN : 0);
      if (events == 0) continue;
      is_done = false;
      waiting.push_back({sockets_[static_cast<std::size_t>(other)].descriptor(), static_cast<short>(events), 0});
    }
    if (is_done) return;
    if (moves) continue;
    waiting.push_back({watch().descriptor(), POLLIN, 0});
    ::poll(waiting.data(), waiting.size(), -1);
  }
}

}  // namespace trainer
