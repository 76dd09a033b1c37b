#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/device/device.h"
#include "engine/memory/allocator.h"
#include "engine/plan/live_buffers.h"
#include "engine/plan/memory_plan.h"
#include "engine/plan/out_of_memory_context.h"
#include "engine/program/program.h"

namespace trainer {

struct HostBatch;  // datasets/batch_reader.h

/// An allocation of a program failed; the context was collected before anything was released.
class ProgramOutOfMemory : public OutOfMemory {
 public:
  explicit ProgramOutOfMemory(OutOfMemoryContext context)
      : OutOfMemory(context.failure), context_(std::move(context)) {}
  const OutOfMemoryContext& context() const noexcept { return context_; }

 private:
  OutOfMemoryContext context_;
};

/// Looks at a routine while it runs, for diagnosis and prediction.
class CallObserver {
 public:
  virtual ~CallObserver() = default;
  /// After each call, with everything still live that the call read and wrote. False ends the routine there.
  virtual bool after_call(const OpCall& call, const LiveBuffers& live) = 0;
};

/// Runs the routines of one program on a device. Everything a routine needs per call is prepared when it runs for the
/// first time (or by prepare()); from then on running it takes nothing from the system heap.
class Executor {
 public:
  /// All three must outlive the executor; nothing is allocated yet.
  Executor(const Program& program, Device& device, Allocator& allocator);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Makes the kernels of a routine, so that its first run is like every other.
  void prepare(const Routine& routine);

  /// Peaks and the timeline start anew, for a step or an evaluation. `step` is what a failure names.
  void begin_step(std::int64_t step);
  /// Executes the instructions: allocate, run, release. The host's batch, of routine.batch_size samples, is copied in
  /// as soon as its buffers are allocated, and must stay until the device has been synchronised: run does not wait.
  /// Throws ProgramOutOfMemory, after which the buffers allocated since
  /// `load` are released and parameters are as the last completed call left them; DeviceError.
  void run(const Routine& routine, const StepScalars& scalars, const HostBatch* batch = nullptr,
           CallObserver* observer = nullptr);

  /// Calls that the last run() completed, also where it failed.
  std::int64_t num_calls_completed() const { return num_calls_completed_; }

  /// Releases everything that `program.load` did not allocate.
  void release_transient() noexcept;
  /// Releases everything and gives the allocator's cache back.
  void release_all() noexcept;

  /// Copies whole buffers and waits for the copy; queue_read() and clear() only queue, until the device is
  /// synchronised.
  void read(BufferId buffer, void* to);
  void queue_read(BufferId buffer, void* to);
  void write(BufferId buffer, const void* from);
  void clear(BufferId buffer);

  /// Of the step or evaluation that begin_step started.
  StepMemory memory() const;
  /// What was held, by category, when `allocated` was highest since the executor was made.
  const CategoryBytes& peak_by_category() const { return peak_by_category_; }
  /// The highest values since the executor was made.
  const StepMemory& run_peak() const;

  const Program& program() const { return program_; }
  Device& device() { return device_; }
  const Allocator& allocator() const { return allocator_; }
  const LiveBuffers& live() const { return live_; }

 private:
  void allocate(const Routine& routine, std::int32_t buffer, const HostBatch* batch);
  void release(std::int32_t buffer) noexcept;
  void run_call(std::int32_t index);
  void start_timeline(const Routine& routine);
  void note(const Instruction& instruction);

  const Program& program_;
  Device& device_;
  Allocator& allocator_;
  LiveBuffers live_;
  std::vector<Kernel*> kernels_;     ///< by call; null until prepared
  std::vector<void*> operands_;      ///< of the call that runs: inputs, then outputs
  std::vector<char> is_persistent_;  ///< by buffer

  std::int64_t step_ = 0;
  std::int64_t num_calls_completed_ = 0;
  /// Note [Timeline of accumulated steps]
  /// The timeline holds the first micro-batch of a step, its newest further one, and the update: what differs. So its
  /// room is known beforehand, however many micro-batches a step has.
  std::vector<TimelinePoint> timeline_;
  std::size_t further_begin_ = 0;  ///< where the points of further micro-batches begin

  CategoryBytes by_category_{}, peak_by_category_{};
  std::int64_t highest_allocated_ = 0;
  mutable StepMemory run_peak_;
};

}  // namespace trainer
