#include "engine/ranks/mpi_communicator.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "engine/ranks/rank_meeting.h"

namespace trainer {
namespace {

using MpiClock = std::chrono::steady_clock;

/// Of a message: MPI counts bytes in an int.
constexpr std::int64_t most_message_bytes = std::int64_t{1} << 30;

void require_mpi(int result, const char* what) {
  if (result != 0)
    throw DeviceError(fmt::format("MPI failed ({}: error {}); parallel.transport=tcp does without it", what, result));
}

}  // namespace

MpiCommunicator::MpiCommunicator(const RankEnvironment& environment, double timeout_seconds)
    : RankCommunicator(environment), calls_(mpi().calls()) {
  int provided = 0, rank_of_mpi = 0, size_of_mpi = 0;
  require_mpi(calls_.init_thread(nullptr, nullptr, MpiCalls::one_at_a_time, &provided), "MPI_Init_thread");
  if (provided < MpiCalls::one_at_a_time)
    throw DeviceError(
        fmt::format("{} lets its first thread alone call MPI: set parallel.transport: tcp", mpi().path()));
  require_mpi(calls_.set_errors(calls_.world, calls_.errors_return), "MPI_Comm_set_errhandler");
  require_mpi(calls_.rank(calls_.world, &rank_of_mpi), "MPI_Comm_rank");
  require_mpi(calls_.size(calls_.world, &size_of_mpi), "MPI_Comm_size");
  if (rank_of_mpi != rank() || size_of_mpi != size())
    throw DeviceError(
        fmt::format("mpirun started rank {} of {}, and {} takes it for rank {} of {}: set TRAINER_MPI to the "
                    "libmpi.so.40 of the mpirun that is used, or use parallel.transport=tcp",
                    rank(), size(), mpi().path(), rank_of_mpi, size_of_mpi));
  RankConnections connections = connect_ranks(environment, Carrier::mpi, timeout_seconds, [this](FirstPlace& place) {
    require_mpi(calls_.broadcast(&place, sizeof place, calls_.byte, 0, calls_.world), "MPI_Bcast");
  });
  begin(std::move(connections.words), timeout_seconds);
}

template <typename Part, typename Begin>
void MpiCommunicator::begin_messages(int other, std::span<const Part> parts, bool is_received, Begin&& begin_message) {
  std::int64_t within = 0;  // of the first of the parts
  while (!parts.empty()) {
    std::int64_t left = most_message_bytes;
    sizes_.clear();
    places_.clear();
    while (left > 0 && !parts.empty()) {
      const std::int64_t count = std::min(left, parts[0].num_bytes - within);
      sizes_.push_back(static_cast<int>(count));
      places_.push_back(reinterpret_cast<std::ptrdiff_t>(parts[0].bytes) + within);
      left -= count;
      within += count;
      if (within < parts[0].num_bytes) break;
      parts = parts.subspan(1);
      within = 0;
    }
    MpiCalls::Request request = nullptr;
    int result = 0;
    if (sizes_.size() == 1) {
      result = begin_message(reinterpret_cast<void*>(places_[0]), sizes_[0], calls_.byte, &request);
    } else {
      MpiCalls::Type type = nullptr;
      require_mpi(
          calls_.make_pieces(static_cast<int>(sizes_.size()), sizes_.data(), places_.data(), calls_.byte, &type),
          "MPI_Type_create_hindexed");
      require_mpi(calls_.commit_type(&type), "MPI_Type_commit");
      result = begin_message(nullptr, 1, type, &request);
      require_mpi(calls_.free_type(&type), "MPI_Type_free");  // the message keeps it
    }
    if (result != 0) watch().fail(other);
    requests_.push_back(request);
    ranks_.push_back(other);
    num_bytes_.push_back(is_received ? most_message_bytes - left : -1);
  }
}

void MpiCommunicator::carry(std::span<Traffic> by_rank) {
  constexpr int tag = 0;
  requests_.clear();
  ranks_.clear();
  num_bytes_.clear();
  watch().check();
  for (int other = 0; other < size(); ++other)
    begin_messages<ReceivedBytes>(other, by_rank[static_cast<std::size_t>(other)].receives, true,
                                  [&](void* bytes, int count, MpiCalls::Type type, MpiCalls::Request* request) {
                                    return calls_.receive(bytes, count, type, other, tag, calls_.world, request);
                                  });
  for (int other = 0; other < size(); ++other)
    begin_messages<SentBytes>(other, by_rank[static_cast<std::size_t>(other)].sends, false,
                              [&](const void* bytes, int count, MpiCalls::Type type, MpiCalls::Request* request) {
                                return calls_.send(bytes, count, type, other, tag, calls_.world, request);
                              });
  finish_messages();
}

void MpiCommunicator::finish_messages() {
  const std::size_t count = requests_.size();
  done_.resize(count);
  statuses_.resize(count);
  // Who waits for long gives its core to others: MPI has nothing that sleeps until a message comes.
  constexpr auto soon = std::chrono::milliseconds(20);
  constexpr auto nap = std::chrono::microseconds(50);
  MpiClock::time_point moved = MpiClock::now();
  for (std::size_t num_left = count; num_left > 0;) {
    watch().check();
    int num_done = 0;
    const int result =
        calls_.test_some(static_cast<int>(count), requests_.data(), &num_done, done_.data(), statuses_.data());
    if (result != 0 && result != MpiCalls::error_in_status) watch().fail(ranks_[0]);
    for (int i = 0; i < num_done; ++i) {
      const auto which = static_cast<std::size_t>(done_[static_cast<std::size_t>(i)]);
      const MpiStatus& status = statuses_[static_cast<std::size_t>(i)];
      if (result != 0 && status.error != 0) watch().fail(ranks_[which]);
      require_internal(num_bytes_[which] < 0 || static_cast<std::int64_t>(status.num_bytes) == num_bytes_[which],
                       "two ranks exchange the same bytes");
    }
    num_left -= static_cast<std::size_t>(std::max(num_done, 0));
    if (num_done > 0) {
      moved = MpiClock::now();
    } else if (MpiClock::now() - moved < soon) {
      ::sched_yield();
    } else {
      std::this_thread::sleep_for(nap);
    }
  }
}

void MpiCommunicator::end() { require_mpi(calls_.finalize(), "MPI_Finalize"); }

}  // namespace trainer
