#include "engine/ranks/rank_meeting.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <string_view>

#include "engine/errors.h"
#include "engine/ranks/untold_rank_error.h"

namespace trainer {
namespace {

/// What a connection begins with.
struct Hello {
  static constexpr std::uint64_t trainers = 0x32736b6e61727274;  // "trranks2"

  std::uint64_t magic = trainers;
  std::int32_t rank = 0, size = 0;
  std::int32_t is_for_words = 0;
  std::int32_t port = 0;  ///< where the rank waits itself
  Carrier carrier = Carrier::tcp;
  std::int32_t unused = 0;
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

std::vector<std::string> parts_of(std::string_view list) {
  std::vector<std::string> parts;
  while (!list.empty()) {
    parts.emplace_back(list.substr(0, list.find(',')));
    list.remove_prefix(std::min(parts.back().size() + 1, list.size()));
  }
  return parts;
}

class Meeting {
 public:
  Meeting(const RankEnvironment& environment, Carrier carrier, double timeout_seconds)
      : environment_(environment),
        carrier_(carrier),
        timeout_seconds_(timeout_seconds),
        left_(timeout_seconds),
        places_(static_cast<std::size_t>(environment.size)) {
    connections_.words.resize(places_.size());
    connections_.tensors.resize(places_.size());
  }

  RankConnections meet(const TellFirstPlace& tell) {
    find_first(tell);
    if (environment_.rank > 0) call_those_before();
    wait_for_those_behind();
    if (environment_.rank == 0)
      for (int other = 1; other < environment_.size; ++other)
        connections_.words[static_cast<std::size_t>(other)].send(std::as_bytes(std::span(places_)));
    return std::move(connections_);
  }

 private:
  /// Where rank 0 waits, and where this rank does.
  void find_first(const TellFirstPlace& tell) {
    first_addresses_ = {environment_.address};
    first_port_ = environment_.port;
    const bool is_told = tell && !environment_.is_address_given;
    if (!is_told && environment_.address.empty())
      throw ConfigError(
          fmt::format("{} started {} ranks on several machines: set MASTER_ADDR to the name of the one with rank 0",
                      environment_.starter, environment_.size));
    const bool is_local = is_told ? environment_.num_local == environment_.size
                                  // A name of this machine may be that of an address which others reach it by.
                                  : is_of_this_machine(environment_.address);
    waiting_ = Socket::listen(environment_.rank == 0 && !is_told ? first_port_ : 0, is_local);
    if (!is_told) return;
    FirstPlace place;
    place.port = waiting_.port();
    const std::string addresses =
        is_local ? "127.0.0.1" : fmt::format("{}", fmt::join(addresses_of_this_machine(), ","));
    // The last of many may be cut; the name is the first.
    addresses.copy(place.addresses.data(), place.addresses.size() - 1);
    tell(place);
    first_addresses_ = parts_of(place.addresses.data());
    first_port_ = place.port;
  }

  void call(int other, const std::vector<std::string>& addresses, int port) {
    for (const bool is_for_words : {false, true}) {
      if (!is_for_words && carrier_ != Carrier::tcp) continue;
      Socket socket = Socket::connect(addresses, port, left_.seconds());
      socket.send(bytes_of(Hello{.rank = environment_.rank,
                                 .size = environment_.size,
                                 .is_for_words = is_for_words,
                                 .port = waiting_.port(),
                                 .carrier = carrier_}));
      (is_for_words ? connections_.words : connections_.tensors)[static_cast<std::size_t>(other)] = std::move(socket);
    }
  }

  void call_those_before() {
    call(0, first_addresses_, first_port_);
    if (!connections_.words[0].receive(std::as_writable_bytes(std::span(places_)), left_.seconds() + 1))
      throw RankError(ExitCode::device,
                      fmt::format("not all of {} ranks have come within {:.0f} s, or rank 0 has ended",
                                  environment_.size, timeout_seconds_));
    const std::string first = connections_.words[0].peer_address();
    for (int other = 1; other < environment_.rank; ++other) {
      const RankPlace& place = places_[static_cast<std::size_t>(other)];
      call(other, {place.address[0] == '\0' ? first : place.address.data()}, place.port);
    }
  }

  /// They call this rank, in any order.
  void wait_for_those_behind() {
    const int calls_of_each = carrier_ == Carrier::tcp ? 2 : 1;
    for (int num_calls = calls_of_each * (environment_.size - 1 - environment_.rank); num_calls > 0;) {
      Socket socket = waiting_.accept(left_.seconds());
      if (!socket.is_open()) fail_for_missing();
      Hello hello;
      constexpr double seconds_of_hello = 5;
      if (!socket.receive(writable_bytes_of(hello), seconds_of_hello) || hello.magic != Hello::trainers)
        continue;  // somebody else's call
      if (hello.size != environment_.size)
        throw RankError(ExitCode::config, fmt::format("rank {} is one of {} ranks, and rank {} one of {}", hello.rank,
                                                      hello.size, environment_.rank, environment_.size));
      if (hello.carrier != carrier_)
        throw RankError(
            ExitCode::config,
            fmt::format("rank {} sends by {}, and rank {} by {}: give all the same parallel.transport", hello.rank,
                        carrier_name(hello.carrier), environment_.rank, carrier_name(carrier_)));
      if (hello.rank <= environment_.rank || hello.rank >= environment_.size) continue;
      const auto other = static_cast<std::size_t>(hello.rank);
      Socket& place = (hello.is_for_words != 0 ? connections_.words : connections_.tensors)[other];
      if (place.is_open())
        throw RankError(ExitCode::config,
                        fmt::format("two processes are rank {}: is another run at port {}? MASTER_PORT names another",
                                    hello.rank, first_port_));
      const std::string address = socket.peer_address();
      if (!is_of_this_machine(address)) address.copy(places_[other].address.data(), places_[other].address.size() - 1);
      places_[other].port = hello.port;
      place = std::move(socket);
      --num_calls;
    }
  }

  [[noreturn]] void fail_for_missing() const {
    std::vector<int> missing;
    for (int other = environment_.rank + 1; other < environment_.size; ++other)
      if (!connections_.words[static_cast<std::size_t>(other)].is_open()) missing.push_back(other);
    constexpr std::size_t most_named = 8;
    const std::size_t more = missing.size() - std::min(missing.size(), most_named);
    missing.resize(missing.size() - more);
    throw UntoldRankError(
        ExitCode::device,
        fmt::format("of {} ranks {}{} did not come within {:.0f} s (parallel.timeout)", environment_.size,
                    fmt::join(missing, ", "), more > 0 ? fmt::format(" and {} more", more) : "", timeout_seconds_));
  }

  const RankEnvironment& environment_;
  const Carrier carrier_;
  const double timeout_seconds_;
  const TimeLeft left_;
  std::vector<std::string> first_addresses_;
  int first_port_ = 0;
  Socket waiting_;
  std::vector<RankPlace> places_;  ///< by rank
  RankConnections connections_;
};

}  // namespace

RankConnections connect_ranks(const RankEnvironment& environment, Carrier carrier, double timeout_seconds,
                              const TellFirstPlace& tell) {
  return Meeting(environment, carrier, timeout_seconds).meet(tell);
}

}  // namespace trainer
