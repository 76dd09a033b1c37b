#include "engine/report/logging/metrics_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string_view>
#include <vector>

#include "engine/device/thread_limit.h"
#include "engine/errors.h"

namespace trainer {
namespace {

constexpr int longest_backlog = 64;
/// Where the system gives no more sockets.
constexpr std::chrono::milliseconds accept_pause{100};

Socket listen_on_loopback(int port) {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int one = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (socket.is_open()) ::setsockopt(socket.descriptor(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (!socket.is_open() ||
      ::bind(socket.descriptor(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(socket.descriptor(), longest_backlog) != 0)
    throw ConfigError(
        fmt::format("logging.prometheus_port: cannot serve metrics at 127.0.0.1:{}: {}; "
                    "logging.prometheus_port=0 takes a free port",
                    port, std::strerror(errno)));
  return socket;
}

std::string http_answer(std::string_view status, std::string_view body, bool has_body = true,
                        std::string_view further = "") {
  return fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n"
      "Connection: close\r\nX-Content-Type-Options: nosniff\r\n{}\r\n{}",
      status, body.size(), further, has_body ? body : "");
}

bool is_whole(const std::string& head) {
  return head.find("\r\n\r\n") != std::string::npos || head.find("\n\n") != std::string::npos;
}

}  // namespace

MetricsServer::MetricsServer(int port, std::function<std::string()> text)
    : text_(std::move(text)), listener_(listen_on_loopback(port)), stop_(::eventfd(0, EFD_CLOEXEC)) {
  if (!stop_.is_open()) throw DeviceError(fmt::format("cannot serve metrics: {}", std::strerror(errno)));
  port_ = listener_.port();
  thread_ = start_thread([this] {
    try {
      serve();
    } catch (const std::exception&) {  // no memory is left for it, and training matters more
    }
  });
}

MetricsServer::~MetricsServer() {
  const std::uint64_t one = 1;
  // An event counter of 0 takes it.
  [[maybe_unused]] const ssize_t written = ::write(stop_.descriptor(), &one, sizeof one);
  thread_.join();
}

std::string MetricsServer::address() const { return fmt::format("http://127.0.0.1:{}/metrics", port_); }

void MetricsServer::serve() {
  std::list<Connection> connections;
  Clock::time_point paused_until{};
  std::vector<pollfd> watched;
  for (;;) {
    const Clock::time_point now = Clock::now();
    const bool accepts = connections.size() < most_connections && now >= paused_until;
    watched.assign({{stop_.descriptor(), POLLIN, 0}, {accepts ? listener_.descriptor() : -1, POLLIN, 0}});
    Clock::time_point next = now < paused_until ? paused_until : now + std::chrono::hours(1);
    for (const Connection& each : connections) {
      const bool sends = !each.answer.empty() && !each.is_answered;
      watched.push_back({each.socket.descriptor(), static_cast<short>(sends ? POLLOUT : POLLIN), 0});
      next = std::min(next, each.deadline);
    }
    const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(next - now).count() + 1;
    const int num_ready = ::poll(watched.data(), watched.size(), static_cast<int>(std::max<std::int64_t>(wait, 0)));
    if (num_ready < 0 && errno != EINTR) return;
    if (watched[0].revents != 0) return;
    std::size_t i = 2;
    for (auto each = connections.begin(); each != connections.end(); ++i) {
      const bool is_over =
          (num_ready > 0 && watched[i].revents != 0 && !go_on(*each)) || Clock::now() >= each->deadline;
      each = is_over ? connections.erase(each) : std::next(each);
    }
    if (num_ready > 0 && watched[1].revents != 0) accept_waiting(connections, paused_until);
  }
}

void MetricsServer::accept_waiting(std::list<Connection>& connections, Clock::time_point& paused_until) const {
  while (connections.size() < most_connections) {
    Socket socket(::accept4(listener_.descriptor(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.is_open()) {
      if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR && errno != ECONNABORTED)
        paused_until = Clock::now() + accept_pause;
      return;
    }
    connections.push_back({.socket = std::move(socket), .deadline = Clock::now() + longest_connection, .head = {}});
  }
}

bool MetricsServer::go_on(Connection& connection) const {
  if (connection.is_answered || connection.answer.empty()) return read_some(connection);
  return send_some(connection);
}

bool MetricsServer::read_some(Connection& connection) const {
  std::array<char, 4096> bytes{};
  const ssize_t count = ::recv(connection.socket.descriptor(), bytes.data(), bytes.size(), 0);
  if (count < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
  if (count == 0) return false;
  if (connection.is_answered) return true;
  connection.head.append(bytes.data(), static_cast<std::size_t>(count));
  if (is_whole(connection.head))
    connection.answer = answer_to(connection.head);
  else if (connection.head.size() > most_head_bytes)
    connection.answer = http_answer("431 Request Header Fields Too Large", "the request is too long\n");
  return connection.answer.empty() || send_some(connection);
}

bool MetricsServer::send_some(Connection& connection) {
  const std::string_view rest = std::string_view(connection.answer).substr(connection.num_sent);
  const ssize_t count = ::send(connection.socket.descriptor(), rest.data(), rest.size(), MSG_NOSIGNAL);
  if (count < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
  connection.num_sent += static_cast<std::size_t>(count);
  if (connection.num_sent < connection.answer.size()) return true;
  connection.is_answered = true;
  return ::shutdown(connection.socket.descriptor(), SHUT_WR) == 0;
}

std::string MetricsServer::answer_to(const std::string& head) const {
  const std::string_view line = std::string_view(head).substr(0, head.find_first_of("\r\n"));
  const std::size_t first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || first == last || !line.substr(last + 1).starts_with("HTTP/1."))
    return http_answer("400 Bad Request", "this is no request of HTTP/1.1\n");
  const std::string_view method = line.substr(0, first), target = line.substr(first + 1, last - first - 1);
  if (method != "GET" && method != "HEAD")
    return http_answer("405 Method Not Allowed", "GET /metrics\n", true, "Allow: GET, HEAD\r\n");
  const bool has_body = method == "GET";
  if (target.substr(0, target.find('?')) != "/metrics")
    return http_answer("404 Not Found", "metrics are at /metrics\n", has_body);
  return http_answer("200 OK", text_(), has_body);
}

}  // namespace trainer
