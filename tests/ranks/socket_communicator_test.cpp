#include "engine/ranks/socket_communicator.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>

#include "tests/ranks/rank_threads.h"

using namespace trainer;
using Catch::Contains;

namespace {

/// What rank `from` sends to rank `to` as its i-th message of a round.
std::vector<std::uint8_t> message(int round, int from, int to, int i) {
  std::mt19937 random(static_cast<unsigned>(((round * 16 + from) * 16 + to) * 16 + i));
  const std::size_t sizes[] = {0, 1, 7, 4096, 300'000};
  std::vector<std::uint8_t> bytes(sizes[random() % std::size(sizes)] + random() % 5);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
  return bytes;
}

std::string failure_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const RankError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("ranks receive what others sent them, in order, whatever the pieces") {
  for (const int num_ranks : {2, 3, 5}) {
    std::atomic<int> num_wrong{0};
    on_ranks(num_ranks, [&](SocketCommunicator& ranks) {
      for (int round = 0; round < 20; ++round) {
        constexpr int num_messages = 3;
        std::vector<std::vector<std::uint8_t>> sent, received, expected;
        std::vector<SentBytes> sends;
        std::vector<ReceivedBytes> receives;
        for (int other = 0; other < num_ranks; ++other) {
          if (other == ranks.rank()) continue;
          std::size_t all = 0;
          for (int i = 0; i < num_messages; ++i) {
            sent.push_back(message(round, ranks.rank(), other, i));
            sends.push_back({other, sent.back().data(), static_cast<std::int64_t>(sent.back().size())});
          }
          expected.emplace_back();
          for (int i = 0; i < num_messages; ++i)
            for (const std::uint8_t byte : message(round, other, ranks.rank(), i)) expected.back().push_back(byte);
          // In two pieces that no message ends with.
          all = expected.back().size();
          received.emplace_back(all);
          const std::size_t first = all / 3;
          receives.push_back({other, received.back().data(), static_cast<std::int64_t>(first)});
          receives.push_back({other, received.back().data() + first, static_cast<std::int64_t>(all - first)});
        }
        ranks.exchange(sends, receives);
        if (received != expected) ++num_wrong;
      }
    });
    CHECK(num_wrong == 0);
  }
}

TEST_CASE("a rank that ends for a reason ends the others with it, and its exit code") {
  std::vector<std::string> told(3);
  std::vector<int> codes(3);
  const std::string first = failure_of([&] {
    on_ranks(3, [&](SocketCommunicator& ranks) {
      std::uint8_t byte = 0, others[2] = {};
      if (ranks.rank() == 1) {
        // Who is told while it still meets the others is told by the constructor.
        ranks.exchange({}, std::array{ReceivedBytes{0, &others[0], 1}, ReceivedBytes{2, &others[1], 1}});
        throw DataError("the disk is full");
      }
      ranks.exchange(std::array{SentBytes{1, &byte, 1}}, {});
      try {
        ranks.exchange({}, std::array{ReceivedBytes{1, &byte, 1}});
      } catch (const RankError& error) {
        told[static_cast<std::size_t>(ranks.rank())] = error.what();
        codes[static_cast<std::size_t>(ranks.rank())] = static_cast<int>(error.exit_code());
        throw;
      }
    });
  });
  for (const std::size_t rank : {0, 2}) {
    CHECK(told[rank] == "rank 1: the disk is full");
    CHECK(codes[rank] == static_cast<int>(ExitCode::data));
  }
  CHECK(first == told[0]);
}

TEST_CASE("a rank that is gone without a word is told of, and one that only is through is not") {
  std::vector<std::string> told(3);
  on_ranks(3, [&](SocketCommunicator& ranks) {
    // Rank 2 is through at once; the others go on for a while.
    std::uint8_t byte = 0;
    if (ranks.rank() == 2) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const int other = 1 - ranks.rank();
    ranks.exchange(std::array{SentBytes{other, &byte, 1}}, std::array{ReceivedBytes{other, &byte, 1}});
    told[static_cast<std::size_t>(ranks.rank())] = failure_of([&] {
      ranks.exchange({}, std::array{ReceivedBytes{2, &byte, 1}});
    });
  });
  CHECK_THAT(told[0], Contains("rank 2 has ended before this one"));
  CHECK_THAT(told[1], Contains("rank 2 has ended before this one"));
}

TEST_CASE("ranks that leave wait for all, or until one has failed") {
  std::atomic<int> num_here{0}, num_seen{0};
  on_ranks(3, [&](SocketCommunicator& ranks) {
    if (ranks.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    ++num_here;
    ranks.leave();
    num_seen += num_here;
  });
  CHECK(num_seen == 9);
  CHECK(failure_of([&] {
          on_ranks(2, [&](SocketCommunicator& ranks) {
            if (ranks.rank() == 1) throw DataError("the disk is full");
            ranks.leave();
            ranks.check();
          });
        }) == "rank 1: the disk is full");
}

TEST_CASE("ranks that do not come are named, within the time-out") {
  const int port = free_local_port();
  RankEnvironment environment;
  environment.size = environment.num_local = 3;
  environment.port = port;
  const auto begin = std::chrono::steady_clock::now();
  CHECK(failure_of([&] { SocketCommunicator ranks(environment, 0.3); }) ==
        "of 3 ranks 1, 2 did not come within 0 s (parallel.timeout)");
  environment.size = 20;
  CHECK_THAT(failure_of([&] { SocketCommunicator ranks(environment, 0.1); }),
             Contains("of 20 ranks 1, 2, 3, 4, 5, 6, 7, 8 and 11 more did not come"));
  environment.rank = 1;
  CHECK_THAT(failure_of([&] { SocketCommunicator ranks(environment, 0.3); }),
             Contains("no rank answers at 127.0.0.1, port " + std::to_string(port)));
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
}
