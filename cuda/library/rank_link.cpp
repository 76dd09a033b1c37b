#include "cuda/library/rank_link.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "engine/errors.h"

namespace trainer::cuda {
namespace {

using namespace std::chrono_literals;

/// How long one that is to abort waits for a call of NCCL to come back: one that does not is ended by the abort.
constexpr auto patience = 1s;

NcclType nccl_type_of(DType type) {
  switch (type) {
    case DType::f32:
      return NcclType::f32;
    case DType::f16:
      return NcclType::f16;
    case DType::bf16:
      return NcclType::bf16;
    case DType::u8:
      return NcclType::u8;
    case DType::i32:
      return NcclType::i32;
    case DType::i64:
      return NcclType::i64;
    case DType::f64:
      return NcclType::f64;
  }
  throw InternalError("internal error: every type of elements has one of NCCL's");
}

std::size_t num_elements(std::int64_t count) { return static_cast<std::size_t>(count); }

/// Before NCCL first reads them; what is set already stays.
void set_variables(bool deterministic) {
  constexpr int leave_others = 0;
  ::setenv("NCCL_RUNTIME_CONNECT", "0", leave_others);
  if (deterministic) ::setenv("NCCL_NVLS_ENABLE", "0", leave_others);
}

/// ncclCommInitRankConfig, which returns when all ranks have come, in a thread of its own.
struct Initialization {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_done = false, is_given_up = false;
  NcclResult result = NcclResult::success;
  NcclCalls::Comm comm = nullptr;
};

}  // namespace

RankLink::RankLink(const Nccl& nccl, Communicator& ranks, RankLinkOptions options)
    : calls_(nccl.calls()), ranks_(ranks) {
  set_variables(options.deterministic);
  meet(options);
  wake_ = ::eventfd(0, EFD_CLOEXEC);
  if (wake_ < 0) {
    calls_.abort(comm_);
    throw DeviceError(fmt::format("cannot watch NCCL: {}", std::strerror(errno)));
  }
  thread_ = std::thread([this, use_device = std::move(options.use_device)] { watch(use_device); });
}

RankLink::~RankLink() {
  constexpr std::uint64_t word = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_, &word, sizeof word);
  thread_.join();
  ::close(wake_);
  if (is_aborted_) return;
  if (std::uncaught_exceptions() > 0)
    calls_.abort(comm_);
  else
    calls_.destroy(comm_);
}

NcclUniqueId RankLink::tell_id() {
  NcclUniqueId id;
  if (rank() != 0) {
    ranks_.exchange({}, std::array{ReceivedBytes{0, &id, sizeof id}});
    return id;
  }
  if (const NcclResult result = calls_.unique_id(&id); result != NcclResult::success) fail(result);
  std::vector<SentBytes> sends;
  for (int other = 1; other < size(); ++other) sends.push_back({other, &id, sizeof id});
  ranks_.exchange(sends, {});
  return id;
}

void RankLink::meet(const RankLinkOptions& options) {
  const NcclUniqueId id = tell_id();
  const auto start = std::make_shared<Initialization>();
  // Not joined: where a rank is lost on its way it may wait for ever, and this process ends.
  std::thread([start, id, calls = calls_, rank = rank(), num_ranks = size(), use_device = options.use_device,
               max_ctas = options.max_ctas] {
    NcclCalls::Comm comm = nullptr;
    NcclResult result = NcclResult::unhandled_cuda_error;
    try {
      use_device();
      NcclConfig config;
      if (max_ctas > 0) config.max_ctas = max_ctas;
      result = calls.init(&comm, num_ranks, id, rank, &config);
    } catch (const Error&) {  // the device's: whoever waits meets it as well
    }
    const std::lock_guard lock(start->mutex);
    if (start->is_given_up && comm != nullptr) calls.abort(comm);
    start->is_done = true;
    start->result = result;
    start->comm = comm;
    start->changed.notify_all();
  }).detach();

  std::unique_lock lock(start->mutex);
  try {
    while (!start->changed.wait_for(lock, 20ms, [&] { return start->is_done; })) ranks_.check();
  } catch (...) {
    start->is_given_up = true;
    throw;
  }
  if (start->result != NcclResult::success) fail(start->result);
  comm_ = start->comm;
}

void RankLink::watch(const std::function<void()>& use_device) {
  try {
    use_device();
  } catch (const Error& error) {
    return abort(error.what());
  }
  constexpr int look_again = 500;  // milliseconds, at NCCL's errors
  std::array<pollfd, 2> both = {pollfd{wake_, POLLIN, 0}, pollfd{ranks_.failure_descriptor(), POLLIN, 0}};
  while (true) {
    ::poll(both.data(), both.size(), look_again);
    if (both[0].revents != 0) return;
    if (both[1].revents != 0) return abort({});
    NcclResult error = NcclResult::success;
    calls_.async_error(comm_, &error);
    if (error != NcclResult::success && error != NcclResult::in_progress)
      return abort(fmt::format("NCCL lost the way to another rank ({}: {})", calls_.error_string(error),
                               calls_.last_error(comm_)));
  }
}

void RankLink::abort(const std::string& reason) {
  reason_ = reason;
  is_aborted_ = true;
  std::unique_lock lock(calling_, std::defer_lock);
  [[maybe_unused]] const bool nobody_calls = lock.try_lock_for(patience);
  calls_.abort(comm_);
}

void RankLink::check() const {
  if (!is_aborted_) return;
  check_soon();
  throw DeviceError((reason_.empty() ? "NCCL was ended" : reason_) +
                    "; NCCL_DEBUG=WARN makes it tell more, and the run's last checkpoint is intact");
}

void RankLink::check_soon() const {
  pollfd failure = {ranks_.failure_descriptor(), POLLIN, 0};
  ::poll(&failure, 1, static_cast<int>(std::chrono::milliseconds(patience).count()));
  ranks_.check();
}

void RankLink::fail(NcclResult result) const {
  check_soon();
  throw DeviceError(fmt::format("NCCL failed ({}: {}); NCCL_DEBUG=WARN makes it tell more", calls_.error_string(result),
                                calls_.last_error(nullptr)));
}

template <typename Function>
void RankLink::in_group(Function&& queue) {
  NcclResult result = NcclResult::success;
  {
    const std::lock_guard lock(calling_);
    if (!is_aborted_ && (result = calls_.group_start()) == NcclResult::success) {
      const NcclResult queued = queue();
      result = calls_.group_end();
      if (queued != NcclResult::success) result = queued;
    }
  }
  check();
  if (result != NcclResult::success) fail(result);
}

namespace {

/// Ends with the first that fails.
template <typename Tensor, typename Function>
NcclResult for_each_tensor(std::span<const Tensor> tensors, Function queue) {
  for (const Tensor& tensor : tensors)
    if (const NcclResult result = queue(tensor); result != NcclResult::success) return result;
  return NcclResult::success;
}

}  // namespace

void RankLink::all_reduce(std::span<const RankTensor> tensors, DType type, Stream stream) {
  in_group([&] {
    return for_each_tensor(tensors, [&](const RankTensor& tensor) {
      return calls_.all_reduce(tensor.data, tensor.data, num_elements(tensor.count), nccl_type_of(type), NcclSum::sum,
                               comm_, stream);
    });
  });
}

void RankLink::broadcast(std::span<const RankTensor> tensors, DType type, Stream stream) {
  in_group([&] {
    return for_each_tensor(tensors, [&](const RankTensor& tensor) {
      return calls_.broadcast(tensor.data, tensor.data, num_elements(tensor.count), nccl_type_of(type), 0, comm_,
                              stream);
    });
  });
}

void RankLink::reduce(std::span<const RankRange> ranges, DType type, Stream stream) {
  in_group([&] {
    return for_each_tensor(ranges, [&](const RankRange& range) {
      return calls_.reduce(range.from, range.to, num_elements(range.count), nccl_type_of(type), NcclSum::sum,
                           range.rank, comm_, stream);
    });
  });
}

void RankLink::broadcast(std::span<const RankRange> ranges, DType type, Stream stream) {
  in_group([&] {
    return for_each_tensor(ranges, [&](const RankRange& range) {
      return calls_.broadcast(range.from, range.to, num_elements(range.count), nccl_type_of(type), range.rank, comm_,
                              stream);
    });
  });
}

void RankLink::exchange(int other, std::span<const RankTensor> sends, std::span<const RankTensor> receives, DType type,
                        Stream stream) {
  in_group([&] {
    const NcclResult sent = for_each_tensor(sends, [&](const RankTensor& tensor) {
      return calls_.send(tensor.data, num_elements(tensor.count), nccl_type_of(type), other, comm_, stream);
    });
    if (sent != NcclResult::success) return sent;
    return for_each_tensor(receives, [&](const RankTensor& tensor) {
      return calls_.receive(tensor.data, num_elements(tensor.count), nccl_type_of(type), other, comm_, stream);
    });
  });
}

void RankLink::reduce_scatter(std::span<const RankSlices> tensors, DType type, Stream stream) {
  in_group([&] {
    return for_each_tensor(tensors, [&](const RankSlices& tensor) {
      return calls_.reduce_scatter(tensor.from, tensor.to, num_elements(tensor.count), nccl_type_of(type), NcclSum::sum,
                                   comm_, stream);
    });
  });
}

void RankLink::all_gather(std::span<const RankSlices> tensors, DType type, Stream stream) {
  in_group([&] {
    return for_each_tensor(tensors, [&](const RankSlices& tensor) {
      return calls_.all_gather(tensor.from, tensor.to, num_elements(tensor.count), nccl_type_of(type), comm_, stream);
    });
  });
}

}  // namespace trainer::cuda
