#include "engine/ranks/rank_watch.h"

#include <sys/socket.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/ranks/untold_rank_error.h"

using namespace trainer;

namespace {

std::array<Socket, 2> connected_sockets() {
  std::array<int, 2> ends{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
  return {Socket(ends[0]), Socket(ends[1])};
}

struct Loss {
  std::string text;
  bool is_untold = false;
};

/// What `watch` says of a rank that it has lost.
Loss loss_of(const RankWatch& watch, int rank) {
  try {
    watch.fail(rank);
  } catch (const UntoldRankError& error) {
    return {error.what(), true};
  } catch (const RankError& error) {
    return {error.what(), false};
  }
}

}  // namespace

TEST_CASE("the loss of rank 0 is told by the lowest rank that is left, that of another by rank 0") {
  for (const int lost : {0, 1}) {
    auto [first, of_first] = connected_sockets();
    auto [second, of_second] = connected_sockets();
    std::vector<Socket> sockets(3);
    sockets[0] = std::move(first);
    sockets[1] = std::move(second);
    const RankWatch watch(2, std::move(sockets), 60);
    (lost == 0 ? of_first : of_second).close();
    const Loss loss = loss_of(watch, lost);
    CHECK(loss.text == "rank " + std::to_string(lost) + " was killed, or its machine is gone");
    CHECK_FALSE(loss.is_untold);
  }
  auto [first, of_first] = connected_sockets();
  auto [last, of_last] = connected_sockets();
  std::vector<Socket> sockets(3);
  sockets[0] = std::move(first);
  sockets[2] = std::move(last);
  const RankWatch watch(1, std::move(sockets), 60);
  of_first.close();
  CHECK(loss_of(watch, 0).is_untold);
}

TEST_CASE("ranks that fall silent together are told of together, by the lowest that is left") {
  auto [first, of_first] = connected_sockets();
  auto [second, of_second] = connected_sockets();
  auto [last, of_last] = connected_sockets();
  std::vector<Socket> sockets(4);
  sockets[0] = std::move(first);
  sockets[1] = std::move(second);
  sockets[3] = std::move(last);
  const RankWatch watch(2, std::move(sockets), 1);
  std::atomic<bool> is_over{false};
  std::thread speaker([&socket = of_last, &is_over] {
    constexpr std::byte lives{0};
    while (!is_over) {
      socket.send(std::span(&lives, 1));
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  });
  const Loss loss = loss_of(watch, 0);
  is_over = true;
  speaker.join();
  CHECK(loss.text == "ranks 0, 1 have not answered for 1 s");
  CHECK(loss.is_untold);
  // There is nothing to wait for.
  const auto begin = std::chrono::steady_clock::now();
  watch.wait_for_end_of_first();
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(1));
}
