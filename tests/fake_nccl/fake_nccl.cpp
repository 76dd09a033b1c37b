// A library that answers as NCCL does, over host memory: ranks are threads or processes of one machine, and reach each
// other by a file of shared memory that the unique id names. What is queued is done when the call returns, so a rank
// waits within it for the others. Ranks that do not call the same with the same sizes get an error.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cuda/library/nccl.h"
#include "engine/half.h"

namespace trainer::cuda {
namespace {

enum class Kind : std::int32_t { all_reduce, broadcast, reduce, reduce_scatter, all_gather };
struct Call {
  Kind kind{};
  NcclType type{};
  std::size_t count = 0;
  int root = 0;
  friend bool operator==(const Call&, const Call&) = default;
};

constexpr std::size_t chunk_bytes = std::size_t{64} << 10;
struct Slot {
  Call call;
  alignas(64) std::byte chunk[chunk_bytes];
};
/// From one rank to another: a piece of what is sent, which is taken out before the next comes.
struct Mailbox {
  std::atomic<int> is_full{0};
  NcclType type{};
  std::size_t whole_bytes = 0;
  alignas(64) std::byte chunk[chunk_bytes];
};
struct Shared {
  std::atomic<int> num_here{0}, num_arrived{0}, round{0};
};
std::size_t shared_bytes(int num_ranks) {
  const auto size = static_cast<std::size_t>(num_ranks);
  return sizeof(Shared) + 64 + size * sizeof(Slot) + size * size * sizeof(Mailbox);
}

std::atomic<int> async_error{0};

/// Removes at the end what ranks that never met have left.
class MadeIds {
 public:
  ~MadeIds() {
    for (const std::string& id : ids_) ::shm_unlink(id.c_str());
  }
  std::string make() {
    const std::lock_guard lock(mutex_);
    ids_.push_back("/trainer_fake_nccl_" + std::to_string(::getpid()) + "_" + std::to_string(ids_.size()));
    return ids_.back();
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> ids_;
} made_ids;

}  // namespace
}  // namespace trainer::cuda

struct ncclComm {
  void* shared = nullptr;  // a Shared
  int rank = 0, size = 0;
  std::atomic<bool> is_aborted{false};
  std::atomic<int> num_calls{0};
};

namespace trainer::cuda {
namespace {

Shared& shared_of(ncclComm* comm) { return *static_cast<Shared*>(comm->shared); }

Slot& slot_of(ncclComm* comm, int rank) {
  const auto address = reinterpret_cast<std::uintptr_t>(&shared_of(comm) + 1);
  return reinterpret_cast<Slot*>((address + 63) / 64 * 64)[rank];
}

Mailbox& mailbox_of(ncclComm* comm, int from, int to) {
  return reinterpret_cast<Mailbox*>(&slot_of(comm, comm->size))[from * comm->size + to];
}

bool meet(ncclComm* comm) {
  Shared& shared = shared_of(comm);
  const int round = shared.round;
  if (++shared.num_arrived == comm->size) {
    shared.num_arrived = 0;
    ++shared.round;
    return true;
  }
  while (shared.round == round) {
    if (comm->is_aborted) return false;
    std::this_thread::yield();
  }
  return true;
}

std::size_t bytes_of(NcclType type) {
  switch (type) {
    case NcclType::u8:
      return 1;
    case NcclType::f16:
    case NcclType::bf16:
      return 2;
    case NcclType::i32:
    case NcclType::f32:
      return 4;
    case NcclType::i64:
    case NcclType::f64:
      return 8;
  }
  return 0;
}

template <typename T>
void add_as(std::byte* to, const std::byte* from, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    T a, b;
    std::memcpy(&a, to + i * sizeof(T), sizeof(T));
    std::memcpy(&b, from + i * sizeof(T), sizeof(T));
    a = static_cast<T>(a + b);
    std::memcpy(to + i * sizeof(T), &a, sizeof(T));
  }
}

/// As NCCL does: a sum of 16 bits is rounded behind each rank.
void add_half(DType type, std::byte* to, const std::byte* from, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    float a = 0, b = 0;
    widen(type, to + 2 * i, &a, 1);
    widen(type, from + 2 * i, &b, 1);
    a += b;
    narrow(type, &a, to + 2 * i, 1);
  }
}

void add(NcclType type, std::byte* to, const std::byte* from, std::size_t count) {
  switch (type) {
    case NcclType::f32:
      return add_as<float>(to, from, count);
    case NcclType::f64:
      return add_as<double>(to, from, count);
    case NcclType::i32:
      return add_as<std::int32_t>(to, from, count);
    case NcclType::i64:
      return add_as<std::int64_t>(to, from, count);
    case NcclType::u8:
      return add_as<std::uint8_t>(to, from, count);
    case NcclType::f16:
      return add_half(DType::f16, to, from, count);
    case NcclType::bf16:
      return add_half(DType::bf16, to, from, count);
  }
}

/// `take` is given a piece of what every rank has: its slot's chunk, its first element and how many there are.
template <typename Take>
NcclResult exchange(ncclComm* comm, const Call& call, const void* from, std::size_t count, Take take) {
  const std::size_t size = bytes_of(call.type), step = chunk_bytes / size;
  Slot& own = slot_of(comm, comm->rank);
  for (std::size_t begin = 0; begin < std::max<std::size_t>(count, 1); begin += step) {
    const std::size_t num = std::min(step, count - begin);
    own.call = call;
    if (num > 0) std::memcpy(own.chunk, static_cast<const std::byte*>(from) + begin * size, num * size);
    if (!meet(comm)) return NcclResult::remote_error;
    for (int rank = 0; rank < comm->size; ++rank)
      if (!(slot_of(comm, rank).call == call)) return NcclResult::invalid_usage;
    for (int rank = 0; rank < comm->size && num > 0; ++rank) take(rank, slot_of(comm, rank).chunk, begin, num);
    if (!meet(comm)) return NcclResult::remote_error;
  }
  return NcclResult::success;
}

NcclResult run(ncclComm* comm, const Call& call, const void* from, void* to) {
  const std::size_t size = bytes_of(call.type);
  auto* const out = static_cast<std::byte*>(to);
  switch (call.kind) {
    case Kind::all_reduce:
      return exchange(comm, call, from, call.count,
                      [&](int rank, const std::byte* chunk, std::size_t at, std::size_t num) {
                        if (rank == 0)
                          std::memcpy(out + at * size, chunk, num * size);
                        else
                          add(call.type, out + at * size, chunk, num);
                      });
    case Kind::broadcast:
      return exchange(comm, call, from, call.count,
                      [&](int rank, const std::byte* chunk, std::size_t at, std::size_t num) {
                        if (rank == call.root) std::memcpy(out + at * size, chunk, num * size);
                      });
    case Kind::reduce: {
      std::vector<std::byte> sum(call.count * size);
      const NcclResult result = exchange(comm, call, from, call.count,
                                         [&](int rank, const std::byte* chunk, std::size_t at, std::size_t num) {
                                           if (rank == 0)
                                             std::memcpy(sum.data() + at * size, chunk, num * size);
                                           else
                                             add(call.type, sum.data() + at * size, chunk, num);
                                         });
      if (result == NcclResult::success && comm->rank == call.root && !sum.empty())
        std::memcpy(out, sum.data(), sum.size());
      return result;
    }
    case Kind::all_gather:
      return exchange(comm, call, from, call.count,
                      [&](int rank, const std::byte* chunk, std::size_t at, std::size_t num) {
                        std::memcpy(out + (static_cast<std::size_t>(rank) * call.count + at) * size, chunk, num * size);
                      });
    case Kind::reduce_scatter: {
      // Into memory of its own first, for `to` may lie within `from`.
      std::vector<std::byte> sum(call.count * size);
      const std::size_t first = static_cast<std::size_t>(comm->rank) * call.count, end = first + call.count;
      const NcclResult result = exchange(comm, call, from, call.count * static_cast<std::size_t>(comm->size),
                                         [&](int rank, const std::byte* chunk, std::size_t at, std::size_t num) {
                                           const std::size_t low = std::max(at, first), high = std::min(at + num, end);
                                           if (low >= high) return;
                                           const std::byte* const piece = chunk + (low - at) * size;
                                           std::byte* const place = sum.data() + (low - first) * size;
                                           if (rank == 0)
                                             std::memcpy(place, piece, (high - low) * size);
                                           else
                                             add(call.type, place, piece, high - low);
                                         });
      if (result == NcclResult::success && !sum.empty()) std::memcpy(out, sum.data(), sum.size());
      return result;
    }
  }
  return NcclResult::internal_error;
}

/// What is sent to one rank, or received from it.
struct PeerTransfer {
  ncclComm* comm = nullptr;
  bool is_sent = false;
  int peer = 0;
  NcclType type{};
  std::byte* data = nullptr;
  std::size_t num_bytes = 0, num_done = 0;
  bool is_done() const { return num_done == num_bytes; }
};

/// Of a transfer that none of its kind with its peer is before. Returns whether it went on.
NcclResult step(PeerTransfer& transfer, bool& went_on) {
  ncclComm* const comm = transfer.comm;
  Mailbox& mailbox =
      transfer.is_sent ? mailbox_of(comm, comm->rank, transfer.peer) : mailbox_of(comm, transfer.peer, comm->rank);
  if ((mailbox.is_full != 0) == transfer.is_sent) return NcclResult::success;
  const std::size_t num = std::min(chunk_bytes, transfer.num_bytes - transfer.num_done);
  std::byte* const place = transfer.data + transfer.num_done;
  if (transfer.is_sent) {
    mailbox.type = transfer.type;
    mailbox.whole_bytes = transfer.num_bytes;
    std::memcpy(mailbox.chunk, place, num);
  } else {
    if (mailbox.type != transfer.type || mailbox.whole_bytes != transfer.num_bytes) return NcclResult::invalid_usage;
    std::memcpy(place, mailbox.chunk, num);
  }
  mailbox.is_full = transfer.is_sent ? 1 : 0;
  transfer.num_done += num;
  went_on = true;
  return NcclResult::success;
}

/// All of a group together, those with one peer in their order.
NcclResult run_transfers(std::vector<PeerTransfer> transfers) {
  while (!transfers.empty()) {
    bool went_on = false;
    for (std::size_t i = 0; i < transfers.size(); ++i) {
      PeerTransfer& transfer = transfers[i];
      if (transfer.comm->is_aborted) return NcclResult::remote_error;
      const bool waits = std::any_of(
          transfers.begin(), transfers.begin() + static_cast<std::ptrdiff_t>(i),
          [&](const PeerTransfer& other) { return other.is_sent == transfer.is_sent && other.peer == transfer.peer; });
      if (waits) continue;
      if (const NcclResult result = step(transfer, went_on); result != NcclResult::success) return result;
    }
    std::erase_if(transfers, [](const PeerTransfer& transfer) { return transfer.is_done(); });
    if (!went_on) std::this_thread::yield();
  }
  return NcclResult::success;
}

thread_local int group_depth = 0;
thread_local std::vector<std::function<NcclResult()>> grouped;
thread_local std::vector<PeerTransfer> grouped_transfers;

NcclResult run_grouped() {
  std::vector<std::function<NcclResult()>> all;
  all.swap(grouped);
  std::vector<PeerTransfer> transfers;
  transfers.swap(grouped_transfers);
  for (const auto& each : all)
    if (const NcclResult result = each(); result != NcclResult::success) return result;
  if (transfers.empty()) return NcclResult::success;
  ncclComm* const comm = transfers.front().comm;
  ++comm->num_calls;
  const NcclResult result = run_transfers(std::move(transfers));
  --comm->num_calls;
  return result;
}

/// Nothing empty: what NCCL makes of that is its own.
NcclResult queue(const PeerTransfer& transfer) {
  const ncclComm* const comm = transfer.comm;
  if (transfer.num_bytes == 0 || transfer.peer < 0 || transfer.peer >= comm->size || transfer.peer == comm->rank)
    return NcclResult::invalid_argument;
  grouped_transfers.push_back(transfer);
  return group_depth > 0 ? NcclResult::success : run_grouped();
}

NcclResult queue(ncclComm* comm, const Call& call, const void* from, void* to) {
  grouped.emplace_back([=] {
    ++comm->num_calls;
    const NcclResult result = comm->is_aborted ? NcclResult::remote_error : run(comm, call, from, to);
    --comm->num_calls;
    return result;
  });
  return group_depth > 0 ? NcclResult::success : run_grouped();
}

void end(ncclComm* comm) {
  while (comm->num_calls > 0) std::this_thread::yield();
  ::munmap(comm->shared, shared_bytes(comm->size));
  delete comm;
}

}  // namespace
}  // namespace trainer::cuda

using namespace trainer::cuda;

#define FAKE_NCCL extern "C" __attribute__((visibility("default")))
// NOLINTBEGIN(readability-identifier-naming): NCCL's names

/// For tests: what ncclCommGetAsyncError finds.
FAKE_NCCL void fake_nccl_set_async_error(int error) { async_error = error; }

FAKE_NCCL NcclResult ncclGetVersion(int* version) {
  const char* const given = std::getenv("FAKE_NCCL_VERSION");
  *version = given != nullptr ? std::atoi(given) : 23000;
  return NcclResult::success;
}
FAKE_NCCL const char* ncclGetErrorString(NcclResult result) {
  return result == NcclResult::remote_error ? "pretended remote error" : "pretended error";
}
FAKE_NCCL const char* ncclGetLastError(ncclComm*) { return "no more is known"; }

FAKE_NCCL NcclResult ncclGetUniqueId(NcclUniqueId* id) {
  made_ids.make().copy(id->internal, sizeof id->internal - 1);
  return NcclResult::success;
}

FAKE_NCCL NcclResult ncclCommInitRankConfig(ncclComm** comm, int size, NcclUniqueId id, int rank, NcclConfig* config) {
  if (config->magic != 0xcafebeef || config->blocking != 1 || config->max_ctas < 1) return NcclResult::invalid_argument;
  const int file = ::shm_open(id.internal, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return NcclResult::system_error;
  const std::size_t num_bytes = shared_bytes(size);
  // A file begins with zeros, which is how all of it begins.
  if (::ftruncate(file, static_cast<off_t>(num_bytes)) != 0) return NcclResult::system_error;
  void* const memory = ::mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (memory == MAP_FAILED) return NcclResult::system_error;
  auto* const shared = static_cast<Shared*>(memory);
  ++shared->num_here;
  constexpr auto longest = std::chrono::seconds(20);
  const auto begin = std::chrono::steady_clock::now();
  while (shared->num_here < size) {
    if (std::chrono::steady_clock::now() - begin > longest) return NcclResult::system_error;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ::shm_unlink(id.internal);
  auto* const made = new ncclComm;
  made->shared = shared;
  made->rank = rank;
  made->size = size;
  *comm = made;
  return NcclResult::success;
}
FAKE_NCCL NcclResult ncclCommDestroy(ncclComm* comm) {
  end(comm);
  return NcclResult::success;
}
FAKE_NCCL NcclResult ncclCommAbort(ncclComm* comm) {
  comm->is_aborted = true;
  end(comm);
  return NcclResult::success;
}
FAKE_NCCL NcclResult ncclCommGetAsyncError(ncclComm*, NcclResult* error) {
  *error = static_cast<NcclResult>(async_error.load());
  return NcclResult::success;
}

FAKE_NCCL NcclResult ncclGroupStart() {
  ++group_depth;
  return NcclResult::success;
}
FAKE_NCCL NcclResult ncclGroupEnd() { return --group_depth > 0 ? NcclResult::success : run_grouped(); }

FAKE_NCCL NcclResult ncclAllReduce(const void* from, void* to, std::size_t count, NcclType type, NcclSum,
                                   ncclComm* comm, Stream) {
  return queue(comm, {Kind::all_reduce, type, count}, from, to);
}
FAKE_NCCL NcclResult ncclBroadcast(const void* from, void* to, std::size_t count, NcclType type, int root,
                                   ncclComm* comm, Stream) {
  return queue(comm, {Kind::broadcast, type, count, root}, from, to);
}
FAKE_NCCL NcclResult ncclReduce(const void* from, void* to, std::size_t count, NcclType type, NcclSum, int root,
                                ncclComm* comm, Stream) {
  return queue(comm, {Kind::reduce, type, count, root}, from, to);
}
FAKE_NCCL NcclResult ncclReduceScatter(const void* from, void* to, std::size_t count, NcclType type, NcclSum,
                                       ncclComm* comm, Stream) {
  return queue(comm, {Kind::reduce_scatter, type, count}, from, to);
}
FAKE_NCCL NcclResult ncclAllGather(const void* from, void* to, std::size_t count, NcclType type, ncclComm* comm,
                                   Stream) {
  return queue(comm, {Kind::all_gather, type, count}, from, to);
}
FAKE_NCCL NcclResult ncclSend(const void* from, std::size_t count, NcclType type, int peer, ncclComm* comm, Stream) {
  return queue({comm, true, peer, type, static_cast<std::byte*>(const_cast<void*>(from)), count * bytes_of(type)});
}
FAKE_NCCL NcclResult ncclRecv(void* to, std::size_t count, NcclType type, int peer, ncclComm* comm, Stream) {
  return queue({comm, false, peer, type, static_cast<std::byte*>(to), count * bytes_of(type)});
}
// NOLINTEND(readability-identifier-naming)
