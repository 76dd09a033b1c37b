#pragma once

#include <catch2/catch.hpp>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "engine/ranks/socket_communicator.h"

namespace trainer {

/// Calls `body` once for each rank, each in a thread of its own that reaches the others; rethrows the first failure of
/// the lowest rank. Nothing in it may assert, which is for one thread.
inline void on_ranks(int num_ranks, const std::function<void(SocketCommunicator&)>& body, double timeout_seconds = 60) {
  const int port = free_local_port();
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(num_ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < num_ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        RankEnvironment environment;
        environment.rank = rank;
        environment.size = environment.num_local = num_ranks;
        environment.port = port;
        SocketCommunicator ranks(environment, timeout_seconds);
        try {
          body(ranks);
        } catch (const RankError&) {  // told by the one that it is of
          throw;
        } catch (const Error& error) {
          ranks.tell_end(error.exit_code(), error.what());
          throw;
        }
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace trainer
