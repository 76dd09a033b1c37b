#include "engine/report/logging/metrics_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/errors.h"
#include "engine/report/logging/prometheus_sink.h"

using namespace trainer;
using Catch::Contains;
using Catch::StartsWith;

namespace {

/// A connection of somebody who may do as they please.
class Client {
 public:
  explicit Client(int port, in_addr_t where = INADDR_LOOPBACK)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(where);
    is_connected_ = ::connect(socket_.descriptor(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  bool is_connected() const { return is_connected_; }
  void send(const std::string& bytes) const {
    // The other end may be closed already.
    [[maybe_unused]] const ssize_t sent = ::send(socket_.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  /// All that comes until the other end closes.
  std::string rest() const {
    std::string text;
    std::array<char, 4096> bytes{};
    for (;;) {
      pollfd waiting{socket_.descriptor(), POLLIN, 0};
      if (::poll(&waiting, 1, 20'000) <= 0) return "nothing came";
      const ssize_t count = ::recv(socket_.descriptor(), bytes.data(), bytes.size(), 0);
      if (count <= 0) return text;
      text.append(bytes.data(), static_cast<std::size_t>(count));
    }
  }

 private:
  Socket socket_;
  bool is_connected_ = false;
};

std::string answer(const MetricsServer& server, const std::string& request) {
  const Client client(server.port());
  client.send(request);
  return client.rest();
}

}  // namespace

TEST_CASE("metrics are served at a free port of this machine, as they are when they are asked for") {
  std::atomic<int> asked = 0;
  const MetricsServer server(0, [&] { return "metric " + std::to_string(++asked) + "\n"; });
  CHECK(server.port() > 0);
  CHECK(server.address() == "http://127.0.0.1:" + std::to_string(server.port()) + "/metrics");
  for (int i = 1; i <= 3; ++i) {
    const std::string text = answer(server, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    CHECK_THAT(text, StartsWith("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
    CHECK_THAT(text,
               Contains("\r\nContent-Length: 9\r\n") && Catch::EndsWith("\r\n\r\nmetric " + std::to_string(i) + "\n"));
  }
  CHECK_THAT(answer(server, "HEAD /metrics HTTP/1.0\r\n\r\n"),
             Contains("\r\nContent-Length: 9\r\n") && Catch::EndsWith("\r\n\r\n"));
  CHECK_THAT(answer(server, "GET /metrics?name=x HTTP/1.1\n\n"), StartsWith("HTTP/1.1 200 "));
}

TEST_CASE("a port that is taken, or no port, is refused with what to do") {
  const MetricsServer server(0, [] { return ""; });
  CHECK_THROWS_WITH(MetricsServer(server.port(), [] { return ""; }),
                    Contains("cannot serve metrics at 127.0.0.1:" + std::to_string(server.port())) &&
                        Contains("logging.prometheus_port=0 takes a free port"));
}

TEST_CASE("nobody outside of this machine reaches the metrics") {
  const MetricsServer server(0, [] { return "metric 1\n"; });
  // Other addresses of the loopback are not listened at either.
  CHECK_FALSE(Client(server.port(), INADDR_LOOPBACK + 1).is_connected());
}

TEST_CASE("requests that are long, partial, many or none of HTTP do not keep others from theirs") {
  const MetricsServer server(0, [] { return std::string(1 << 20, 'x') + "\n"; });
  CHECK_THAT(answer(server, "GET / HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 404 "));
  CHECK_THAT(answer(server, "GET /metrics/../etc HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 404 "));
  CHECK_THAT(answer(server, "POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"), StartsWith("HTTP/1.1 405 "));
  CHECK_THAT(answer(server, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  CHECK_THAT(answer(server, "GET /metrics\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  CHECK_THAT(answer(server, std::string("\0\xff\x16\x03\n\n", 6)), StartsWith("HTTP/1.1 400 "));
  CHECK_THAT(answer(server, "GET /metrics HTTP/1.1\r\nX: " + std::string(20'000, 'a')), StartsWith("HTTP/1.1 431 "));

  // One that closes at once, one that reads nothing, more that send nothing than are held at a time.
  { const Client gone(server.port()); }
  const Client deaf(server.port());
  deaf.send("GET /metrics HTTP/1.1\r\n\r\n");
  std::vector<Client> silent;
  silent.reserve(MetricsServer::most_connections + 4);
  for (std::size_t i = 0; i < MetricsServer::most_connections + 4; ++i) {
    silent.emplace_back(server.port());
    if (i % 2 == 0) silent.back().send("GET /met");
  }
  // They are closed in time, so that this one comes to its turn.
  CHECK(answer(server, "GET /metrics HTTP/1.1\r\n\r\n").size() > (1 << 20));
}

TEST_CASE("metrics may be asked for at any moment of a run") {
  PrometheusSink sink("", [](const std::string&) {});
  const MetricsServer server(0, [&] { return sink.text(); });
  sink.take(StartEvent{});
  std::string text;
  StepEvent event;
  event.samples = 2;
  event.seconds = 1e-5;
  for (std::int64_t step = 1; step <= 20'000; ++step) {
    event.step = step;
    sink.take(event);
    if (step % 5'000 == 0) text = answer(server, "GET /metrics HTTP/1.1\r\n\r\n");
  }
  CHECK_THAT(text, Contains("trainer_samples_total{run=\"\",stage=\"train\",device=\"\",rank=\"0\"} 40000\n"));
}
