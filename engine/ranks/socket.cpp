#include "engine/ranks/socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <thread>

#include "engine/ranks/untold_rank_error.h"

namespace trainer {
namespace {

using SocketClock = std::chrono::steady_clock;

[[noreturn]] void fail_socket(const std::string& what) {
  throw UntoldRankError(ExitCode::device, fmt::format("{}: {}", what, std::strerror(errno)));
}

struct FreeAddresses {
  void operator()(addrinfo* list) const noexcept { ::freeaddrinfo(list); }
};
using AddressList = std::unique_ptr<addrinfo, FreeAddresses>;

/// Empty where the name is not known, with the reason in `problem`.
AddressList addresses_of(const char* name, int port, bool listens, std::string& problem) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (listens ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(name, std::to_string(port).c_str(), &hints, &found);
  if (error != 0) problem = ::gai_strerror(error);
  return AddressList(error == 0 ? found : nullptr);
}

void set_option(int descriptor, int level, int option, int value) {
  ::setsockopt(descriptor, level, option, &value, sizeof value);  // it is as well without
}

/// Seconds; 0: any time.
void set_time_to_send(int descriptor, time_t seconds) {
  const timeval time{seconds, 0};
  ::setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
}

Socket made_socket(const addrinfo& address) {
  const int descriptor = ::socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC, address.ai_protocol);
  return Socket(descriptor);
}

bool wait_to_read(int descriptor, double seconds) {
  const SocketClock::time_point end =
      SocketClock::now() + std::chrono::duration_cast<SocketClock::duration>(std::chrono::duration<double>(seconds));
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - SocketClock::now()).count();
    pollfd waiting{descriptor, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(std::max<std::int64_t>(left, 0)));
    if (ready > 0) return true;
    if (ready == 0) return false;
    if (errno != EINTR) fail_socket("cannot wait for another rank");
  }
}

}  // namespace

Socket Socket::listen(int port, bool is_local) {
  std::string problem;
  const AddressList addresses = addresses_of(is_local ? "127.0.0.1" : nullptr, port, true, problem);
  for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
    Socket socket = made_socket(*address);
    if (!socket.is_open()) continue;
    set_option(socket.descriptor_, SOL_SOCKET, SO_REUSEADDR, 1);
    if (address->ai_family == AF_INET6) set_option(socket.descriptor_, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    if (::bind(socket.descriptor_, address->ai_addr, address->ai_addrlen) == 0 &&
        ::listen(socket.descriptor_, SOMAXCONN) == 0)
      return socket;
    problem = std::strerror(errno);
  }
  throw UntoldRankError(
      ExitCode::device,
      fmt::format("rank 0 cannot wait for the others at port {}: {}; MASTER_PORT names another", port, problem));
}

int free_local_port() {
  constexpr unsigned first = 20000, count = 12000, most_tries = 100;  // Linux gives those from 32768 on
  std::random_device random;
  for (unsigned i = 0; i < most_tries; ++i) {
    try {
      return Socket::listen(static_cast<int>(first + random() % count), true).port();
    } catch (const RankError&) {  // somebody waits there
    }
  }
  return Socket::listen(0, true).port();
}

Socket Socket::connect(const std::vector<std::string>& addresses, int port, double seconds) {
  const SocketClock::time_point begin = SocketClock::now();
  std::string problem = "no answer";
  do {
    for (const std::string& address : addresses) {
      const AddressList found = addresses_of(address.c_str(), port, false, problem);
      for (const addrinfo* each = found.get(); each != nullptr; each = each->ai_next) {
        Socket socket = made_socket(*each);
        // Where nothing answers at all, the system would wait for minutes.
        constexpr time_t longest_try = 2;
        set_time_to_send(socket.descriptor_, longest_try);
        if (socket.is_open() && ::connect(socket.descriptor_, each->ai_addr, each->ai_addrlen) == 0) {
          set_time_to_send(socket.descriptor_, 0);
          set_option(socket.descriptor_, IPPROTO_TCP, TCP_NODELAY, 1);
          return socket;
        }
        problem = errno == EINPROGRESS ? "no answer" : std::strerror(errno);
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  } while (std::chrono::duration<double>(SocketClock::now() - begin).count() < seconds);
  throw UntoldRankError(ExitCode::device, fmt::format("no rank answers at {}, port {}, within {:.0f} s: {}",
                                                      fmt::join(addresses, ", "), port, seconds, problem));
}

int Socket::port() const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(descriptor_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    fail_socket("cannot tell the port of a socket");
  return address.ss_family == AF_INET6 ? ntohs(reinterpret_cast<sockaddr_in6&>(address).sin6_port)
                                       : ntohs(reinterpret_cast<sockaddr_in&>(address).sin_port);
}

std::string Socket::peer_address() const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  std::array<char, NI_MAXHOST> name{};
  if (::getpeername(descriptor_, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      ::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, name.data(), name.size(), nullptr, 0,
                    NI_NUMERICHOST) != 0)
    fail_socket("cannot tell where another rank is");
  return name.data();
}

Socket Socket::accept(double seconds) const {
  if (!wait_to_read(descriptor_, seconds)) return {};
  Socket socket(::accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC));
  if (socket.is_open()) set_option(socket.descriptor_, IPPROTO_TCP, TCP_NODELAY, 1);
  return socket;
}

void Socket::send(std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) fail_socket("another rank cannot be reached");
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
}

bool Socket::receive(std::span<std::byte> bytes, double seconds) const {
  while (!bytes.empty()) {
    if (!wait_to_read(descriptor_, seconds)) return false;
    const ssize_t got = ::recv(descriptor_, bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

void Socket::set_blocking(bool blocks) const {
  const int flags = ::fcntl(descriptor_, F_GETFL);
  ::fcntl(descriptor_, F_SETFL, blocks ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
}

void Socket::close() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

std::vector<std::string> addresses_of_this_machine() {
  std::array<char, NI_MAXHOST> name{};
  std::vector<std::string> addresses;
  if (::gethostname(name.data(), name.size() - 1) == 0) addresses.emplace_back(name.data());
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return addresses;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_UP) == 0 || (each->ifa_flags & IFF_LOOPBACK) != 0) continue;
    const int family = each->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    if (::getnameinfo(each->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6), name.data(),
                      name.size(), nullptr, 0, NI_NUMERICHOST) != 0)
      continue;
    // An address within a link says a card of this machine, and no other machine's.
    if (std::strchr(name.data(), '%') == nullptr) addresses.emplace_back(name.data());
  }
  ::freeifaddrs(list);
  return addresses;
}

}  // namespace trainer
