#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/device/communicator.h"
#include "engine/device/step_feed.h"
#include "engine/device/step_scalars.h"
#include "engine/memory/memory_source.h"
#include "engine/ops/op.h"
#include "engine/rank_layout.h"

namespace trainer {

/// Bytes that a report calls by their name.
struct NamedBytes {
  std::string name;
  std::int64_t num_bytes = 0;
  friend bool operator==(const NamedBytes&, const NamedBytes&) = default;
};

/// What carries tensors between ranks holds of a device, beside the allocator.
struct CommunicationMemory {
  std::int64_t num_bytes = 0;
  std::string formula;  ///< of an estimate, as a sentence without a stop; empty: measured
};

/// DeviceModel::most_workspace_bytes where there is no bound.
inline constexpr std::int64_t unknown_workspace_bytes = -1;

/// What a program must know of a device before it runs. Also answerable for a device that is only described.
class DeviceModel {
 public:
  virtual ~DeviceModel() = default;

  virtual std::string kind() const = 0;  ///< "cpu", "cuda"
  virtual std::string name() const = 0;  ///< "AMD EPYC, 2 threads"
  /// Scratch that `op` needs while it runs; 0 for most. The same for equal ops, on every call.
  virtual std::int64_t workspace_bytes(const Op& op) const = 0;
  /// What workspace_bytes(op) does not exceed, found without asking a library: for a convolution, its limit, which it
  /// keeps to wherever something serves it within that. Of what serves none it says nothing.
  virtual std::int64_t most_workspace_bytes([[maybe_unused]] const Op& op) const { return unknown_workspace_bytes; }
  /// Host memory that a library takes for itself while `op` runs, beside the workspace; an estimate, 0 for most.
  virtual std::int64_t library_bytes([[maybe_unused]] const Op& op) const { return 0; }
  /// Empty where workspace_bytes is exact; else a sentence that says of what it is an upper bound.
  virtual std::string workspace_bound() const { return {}; }
  /// Whether the next batch is copied in while a step runs. The program then holds a staging buffer for it.
  virtual bool copies_ahead() const { return false; }
  /// Whether a copy from host memory is done when the call for it returns.
  virtual bool copies_at_once() const { return false; }
  /// What the programs for it do at linear layers: engine/program/linear_fusion.h.
  virtual LinearFusions linear_fusions() const { return {}; }
  /// Whether a conv2d with statistics pays, for the batch norm behind it: engine/program/statistics_fusion.h. The same
  /// for equal ops, on every call.
  virtual bool convolution_statistics([[maybe_unused]] const Op& conv2d) const { return false; }
  /// What this process holds of the device besides the allocator's segments (a context, handles, modules), measured
  /// when the device was made, or estimated for a described one. The sum is what `used` shows before the first segment.
  virtual std::vector<NamedBytes> outside_allocator() const = 0;
  /// What carries tensors between ranks of a layout, where it has memory of the device: estimated until they have met.
  virtual CommunicationMemory communication_memory([[maybe_unused]] const RankLayout& ranks) const { return {}; }
};

/// Addresses of one call, in the order of the op's operands.
struct OperandAddresses {
  std::span<void* const> inputs;
  std::span<void* const> outputs;
  void* workspace = nullptr;  ///< workspace_bytes(op), 512-byte aligned; null where 0
};

/// A kernel made for one op: primitives, strides and launch sizes are settled, only addresses are open.
class Kernel {
 public:
  virtual ~Kernel() = default;
  /// Queues the kernel on the device's stream, with the scalars of the last Device::begin_pass. Must not allocate
  /// memory. Throws DeviceError where the device fails.
  virtual void run(const OperandAddresses& addresses) = 0;
};

/// Host memory that the device copies from and to at full speed and without waiting: page-locked for a GPU.
class HostMemory {
 public:
  virtual ~HostMemory() = default;
  virtual std::byte* data() = 0;  ///< 64-byte aligned
};

struct Transfer {
  void* destination = nullptr;
  const void* source = nullptr;
  std::int64_t num_bytes = 0;
};

/// Queued work that was recorded once and can be queued again as a whole. Holds on to the addresses it was recorded
/// with; what begin_pass sets is read anew.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual void replay() = 0;
};

/// A process that holds memory of the device.
struct DeviceProcess {
  std::int64_t pid = 0;
  std::string name;  ///< empty where the system does not tell
  std::int64_t num_bytes = 0;
};

/// A machine that runs programs. One thread uses it at a time. "Queues" means: in order, on the device's stream of
/// kernels, without waiting; a device may as well have finished when the call returns.
class Device : public DeviceModel {
 public:
  /// A kernel for `op`; equal ops share one. The device owns it.
  virtual Kernel& prepare(const Op& op) = 0;
  /// Frees the kernels of updates, none of which is used any more: each stage of a run has updates of its own
  /// (UpdatePace).
  virtual void drop_updates() = 0;

  /// How ops reach other ranks from now on; it outlives their kernels. Throws DeviceError where the device has none.
  virtual void set_communicator(Communicator& communicator) = 0;
  /// Before memory goes that started exchanges may use (Note [Started exchanges] in engine/ops/finish_exchange.h):
  /// waits for the one that runs. Those that wait may be dropped: then the run has failed, and others fail as well.
  virtual void settle_exchanges() noexcept {}

  /// The memory that `capacity` bytes may be acquired from. Called once for each allocator.
  virtual std::unique_ptr<MemorySource> make_memory_source(std::int64_t capacity) = 0;
  /// Bytes that can be acquired now.
  virtual std::int64_t available_bytes() const = 0;
  /// The device's own count for this process: resident memory, or what nvidia-smi shows. Read at every step: where the
  /// question costs more than a step may, the answer is the last one, with what this process took and gave back since.
  virtual std::int64_t used_bytes() const = 0;
  /// The same, asked anew: for what is told once.
  virtual std::int64_t ask_used_bytes() const { return used_bytes(); }
  virtual std::int64_t total_bytes() const = 0;
  /// Others that hold memory of this device, largest first; empty where that cannot be known.
  virtual std::vector<DeviceProcess> other_processes() const { return {}; }
  /// What it had to do in another way than the usual one until now, a sentence each; what was told stays.
  virtual std::vector<std::string> notes() const { return {}; }

  virtual std::unique_ptr<HostMemory> make_host_memory(std::int64_t num_bytes) = 0;

  /// Starts a micro-batch, an update or an evaluation batch: queues the scalars for the kernels that follow, and copies
  /// of what copy_ahead brought to where the kernels want it. Waits on the device, not on the host, for
  /// the last copy_ahead.
  virtual void begin_pass(const StepScalars& scalars, std::span<const Transfer> staged) = 0;
  /// Copies from host memory beside the kernels that are queued, but not before the last begin_pass has taken what was
  /// staged. The host memory must stay until finish_copy_ahead().
  virtual void copy_ahead(std::span<const Transfer> transfers) = 0;
  /// Waits on the host until the last copy_ahead is done.
  virtual void finish_copy_ahead() = 0;

  /// Queue copies; the host memory must stay until they are done.
  virtual void copy_to_device(void* destination, const void* source, std::int64_t num_bytes) = 0;
  virtual void copy_to_host(void* destination, const void* source, std::int64_t num_bytes) = 0;
  virtual void fill_zero(void* destination, std::int64_t num_bytes) = 0;

  /// Whether the host can queue a step before the one before it has been computed.
  virtual bool runs_ahead() const { return false; }
  /// A mark behind everything queued so far; at most 16 may be waited for later.
  virtual std::int64_t set_mark() { return 0; }
  /// Waits until everything before the mark is done; throws DeviceError for a fault in it.
  virtual void wait_for([[maybe_unused]] std::int64_t mark) { synchronize(); }
  /// Waits until everything queued is done, copies ahead too; throws DeviceError for a fault in it.
  virtual void synchronize() = 0;

  /// Records what `queue` queues (kernels, fills, copies on the device, and what a StepFeed queues) without running it,
  /// and may call it a second time where the first does not serve; null where it is not recorded, with the reason in
  /// `obstacle`, which a device that never records leaves empty. Throws what `queue` throws for reasons of its own, and
  /// DeviceError where the device has failed.
  virtual std::unique_ptr<Recording> record([[maybe_unused]] const std::function<void()>& queue,
                                            [[maybe_unused]] std::string& obstacle) {
    return nullptr;
  }

  /// Whether branches run beside what follows them; they are queued within record() only.
  virtual bool has_branches() const { return false; }
  /// Queues the kernels that `queue` queues behind everything queued so far and beside what is queued from now on.
  /// Branches run one after the other; all must be joined before the recording ends. The number that join() takes.
  virtual std::int64_t branch(const std::function<void()>& queue) {
    queue();
    return 0;
  }
  /// What is queued from now on waits for the branch, and for those before it.
  virtual void join([[maybe_unused]] std::int64_t branch) {}

  /// For steps that are recorded whole: Note [Fed steps]; null where the device has none. One at a time; the device
  /// has finished before it goes.
  virtual std::unique_ptr<StepFeed> make_step_feed([[maybe_unused]] const StepFeedShape& shape) { return nullptr; }

  /// Names what is queued until pop_range, for profilers.
  virtual void push_range([[maybe_unused]] const char* name) {}
  virtual void pop_range() {}
};

}  // namespace trainer
