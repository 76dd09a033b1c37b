#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace trainer {

/// A TCP socket. Every failure is an UntoldRankError that says what was being done.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    close();
    descriptor_ = std::exchange(other.descriptor_, -1);
    return *this;
  }

  /// Waits for connections, at a port that the system chooses where it is 0; only from this machine where `is_local`.
  static Socket listen(int port, bool is_local);
  /// To the first of the addresses that answers. Tries again until `seconds` are over: who is to answer may not be
  /// there yet.
  static Socket connect(const std::vector<std::string>& addresses, int port, double seconds);

  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  /// Of one that listens.
  int port() const;
  /// The numbers of the machine at the other end.
  std::string peer_address() const;
  /// The next connection; not open where none came in `seconds`.
  Socket accept(double seconds) const;
  /// All of it, while the socket blocks.
  void send(std::span<const std::byte> bytes) const;
  /// False where the other end is closed, or nothing came in `seconds`.
  bool receive(std::span<std::byte> bytes, double seconds) const;
  void set_blocking(bool blocks) const;
  void close();

 private:
  int descriptor_ = -1;
};

/// A port of this machine that nobody waits at, and none of those that the system gives to connections: so it is still
/// free when a rank comes to wait there.
int free_local_port();

/// The name of this machine, and the numbers by which others may reach it.
std::vector<std::string> addresses_of_this_machine();

}  // namespace trainer
