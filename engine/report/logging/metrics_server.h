#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <string>
#include <thread>

#include "engine/ranks/socket.h"

namespace trainer {

/// Answers GET /metrics over HTTP at 127.0.0.1, which only this machine reaches, from a thread of its own, until it is
/// destroyed. Whoever connects may send anything, or nothing: at most most_connections are open at once, a request's
/// head has at most most_head_bytes, and a connection ends with its answer or after longest_connection.
class MetricsServer {
 public:
  static constexpr std::size_t most_connections = 16, most_head_bytes = 8192;
  static constexpr std::chrono::seconds longest_connection{5};

  /// `port`: 0: a free one. `text`: what is answered, called by the thread. Throws ConfigError where the port cannot be
  /// had, DeviceError where no thread can be started.
  MetricsServer(int port, std::function<std::string()> text);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  int port() const { return port_; }
  /// "http://127.0.0.1:9400/metrics".
  std::string address() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Connection {
    Socket socket;
    Clock::time_point deadline;
    std::string head;         ///< of the request, so far
    std::string answer = {};  ///< empty until the head is whole
    std::size_t num_sent = 0;
    bool is_answered = false;  ///< what still comes is read and dropped, so that the answer is not lost with it
  };

  void serve();
  void accept_waiting(std::list<Connection>& connections, Clock::time_point& paused_until) const;
  /// False where the connection is over.
  bool go_on(Connection& connection) const;
  bool read_some(Connection& connection) const;
  static bool send_some(Connection& connection);
  std::string answer_to(const std::string& head) const;

  const std::function<std::string()> text_;
  Socket listener_, stop_;  ///< stop_: an eventfd
  int port_ = 0;
  std::thread thread_;
};

}  // namespace trainer
