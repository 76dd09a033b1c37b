#include "engine/ranks/rank_meeting.h"

#include <catch2/catch.hpp>
#include <future>
#include <mutex>
#include <thread>

#include "engine/errors.h"

using namespace trainer;

namespace {

RankEnvironment one_of(int rank, int size) {
  RankEnvironment environment;
  environment.rank = rank;
  environment.size = size;
  environment.num_local = size - 1;  // as of several machines
  environment.address.clear();
  return environment;
}

}  // namespace

TEST_CASE("where something tells all ranks the place of rank 0, nobody has to name it") {
  constexpr int num_ranks = 3;
  std::promise<FirstPlace> place;
  std::shared_future<FirstPlace> told = place.get_future().share();
  std::vector<RankConnections> connections(num_ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < num_ranks; ++rank)
    threads.emplace_back([&, rank] {
      connections[static_cast<std::size_t>(rank)] =
          connect_ranks(one_of(rank, num_ranks), Carrier::mpi, 30, [&, rank](FirstPlace& first) {
            if (rank == 0)
              place.set_value(first);
            else
              first = told.get();
          });
    });
  for (std::thread& thread : threads) thread.join();
  for (std::size_t rank = 0; rank < connections.size(); ++rank)
    for (std::size_t other = 0; other < connections.size(); ++other) {
      CHECK(connections[rank].words[other].is_open() == (rank != other));
      CHECK_FALSE(connections[rank].tensors[other].is_open());
    }
}

TEST_CASE("ranks whose bytes something else would carry are told") {
  RankEnvironment environment;
  environment.size = environment.num_local = 2;
  environment.port = free_local_port();
  std::thread other([environment]() mutable {
    environment.rank = 1;
    try {
      connect_ranks(environment, Carrier::mpi, 30);
    } catch (const RankError&) {  // rank 0 tells
    }
  });
  std::string told;
  try {
    connect_ranks(environment, Carrier::tcp, 30);
  } catch (const RankError& error) {
    told = error.what();
    CHECK(error.exit_code() == ExitCode::config);
  }
  other.join();
  CHECK(told == "rank 1 sends by MPI, and rank 0 by TCP: give all the same parallel.transport");
}
