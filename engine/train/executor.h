#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/device/device.h"
#include "engine/memory/allocator.h"
#include "engine/plan/live_buffers.h"
#include "engine/plan/memory_plan.h"
#include "engine/plan/out_of_memory_context.h"
#include "engine/plan/placed_layouts.h"
#include "engine/program/program.h"
#include "engine/train/pass_counts.h"

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
  /// Before each call, with everything live that it reads and writes, and nothing queued.
  virtual void before_call(const OpCall&) {}
  /// After each call, with everything still live that the call read and wrote. False ends the routine there.
  virtual bool after_call(const OpCall& call, const LiveBuffers& live) = 0;
};

struct ExecutorOptions {
  bool replays = true;       ///< let the device record passes that repeat themselves and replay them
  bool branches = true;      ///< in what is recorded: Note [Branches] in branches.h
  bool synchronous = false;  ///< wait after each call, so that a fault is told with the op and layer it happened in
};

/// Runs the routines of one program on a device.
///
/// Note [Layout before work]
/// A step is walked through the allocator before any of its kernels is queued: lay_out() carries out every allocate and
/// release, and notes the addresses of each call; queue() then starts the kernels at those addresses. Kernels run in
/// the order of the walk, but for branches, which keep to it wherever memory is shared (Note [Branches] in branches.h),
/// so a buffer that takes over released memory is written after the last read of what was there. In this way memory
/// that runs out is known while nothing of the step has been computed, and the state of the step before can be saved;
/// and a step whose addresses are those of an earlier one is replayed as one recording. The price: a segment that the
/// step has used cannot go back to the device before the step has run, so the allocator keeps it even where a later
/// allocation of the same step needs its memory (Allocator::begin_layout). Where that is too much, the layout is undone
/// and placed: Note [Placed layouts] in engine/plan/placed_layouts.h.
///
/// Where buffers have places (memory.allocator: planned, placed layouts), routines that leave the memory as they found
/// it have the same addresses and peaks every time. So their layout is kept, and from their second time on a step asks
/// nothing of the allocator.
///
/// Note [Steps at once]
/// A small step is shorter than the host takes to queue it. So where the device has a StepFeed (Note [Fed steps] in
/// device/step_feed.h), a whole step that comes with the addresses it had before is recorded with its beginning and
/// end, and waits on the host until steps_at_once of them have come, which are replayed as one recording. What else
/// asks for the device, or for another layout, starts the waiting steps first, one by one. The layout of a step that
/// waits changed no segment and left the allocator as it found it, so that of the next step, the same walk, changes
/// none either: no memory that a waiting step uses goes back to the device.
///
/// Everything a routine needs per call is there once it is laid out for the first time; from then on a step takes
/// nothing from the system heap.
class Executor {
 public:
  /// All three must outlive the executor; nothing is allocated yet.
  Executor(const Program& program, Device& device, Allocator& allocator, ExecutorOptions options = {});
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Makes the kernels of a routine, so that none is made between steps: where there is no memory for what libraries
  /// compile, nothing is lost. What is laid out is prepared there at the latest. Throws DeviceError.
  void prepare(const Routine& routine);

  /// Peaks and the timeline start anew, for a step or an evaluation. `step` is what a failure names.
  void begin_step(std::int64_t step);

  /// Lays out routines that follow each other, replacing the layout before; anew with places where that runs out of
  /// memory without them. Throws ProgramOutOfMemory, after which the buffers allocated since `load` are released and
  /// parameters are as they were.
  void lay_out(std::span<const Routine* const> routines);

  /// Starts copying the batch of a routine to the device beside what is queued, where the program has a staging buffer;
  /// the batch must stay until finish_staging().
  void stage(const Routine& routine, const HostBatch& batch);
  void finish_staging() { device_.finish_copy_ahead(); }
  /// Waits for the copy, and takes its batch for not staged.
  void take_back_staged() {
    finish_staging();
    is_staged_ = false;
  }

  /// Queues `count` laid-out routines from number `first` on, as one pass under `scalars`. The batch of routine `first`
  /// is the staged one, or else copied from `batch`, which must stay until the device has been waited for, or, where
  /// the device copies at once, until `on_copied` is called, before anything is computed. Throws DeviceError.
  void queue(std::size_t first, std::size_t count, const StepScalars& scalars, const HostBatch* batch = nullptr,
             const std::function<void()>& on_copied = {});

  /// Lets steps of one small micro-batch be fed: Note [Steps at once]. Each ends with the contents of `results`, of
  /// which there are at most two. Nothing changes where the device, or this executor, records nothing.
  void prepare_feed(std::span<const BufferId> results);
  bool feeds() const { return fed_.feed != nullptr; }
  /// Queues all laid-out routines as one step, with `batch` as it is at the call, to start now or together with others.
  /// At most most_steps_queued may not be over. The number that fed_results() takes; -1, and nothing queued, where the
  /// step did not come with these addresses before, or is not recorded.
  std::int64_t feed(const StepScalars& scalars, const HostBatch& batch);
  bool has_waiting_steps() const { return fed_.num_waiting > 0; }
  /// Starts the steps that wait; or takes them back.
  void start_fed();
  void drop_fed() noexcept;
  /// The contents of the results behind one another, once a mark set after the step's start is over.
  const std::byte* fed_results(std::int64_t number);
  static constexpr int steps_at_once = 4;
  static constexpr int most_steps_queued = 2 * steps_at_once;

  /// Lays out one routine and runs it, to its end or to where the observer says, and waits.
  void run(const Routine& routine, const StepScalars& scalars, const HostBatch* batch = nullptr,
           CallObserver* observer = nullptr);

  /// What is live and was not allocated by `program.load`; nothing, once all routines of a step are laid out.
  std::vector<BufferId> leftovers() const;
  bool has_leftovers() const { return num_live_ != num_persistent_; }
  /// Releases everything that `program.load` did not allocate.
  void release_transient() noexcept;
  /// Releases everything; the allocator keeps it cached.
  void release_buffers() noexcept;
  /// Releases everything and gives the allocator's cache back.
  void release_all() noexcept;

  /// Copies whole buffers, or `num_bytes` from `offset` on, and waits for the copy; queue_read() and clear() only
  /// queue. Of a buffer that has a part of its tensor (Buffer::part) all this is said of the tensor: what others hold
  /// of it is neither read nor written.
  void read(BufferId buffer, void* to);
  void read(BufferId buffer, std::int64_t offset, std::int64_t num_bytes, void* to);
  void queue_read(BufferId buffer, void* to);
  void write(BufferId buffer, const void* from);
  void write(BufferId buffer, std::int64_t offset, std::int64_t num_bytes, const void* from);
  void clear(BufferId buffer);

  /// The step within which layouts began to be placed; -1: none is.
  std::int64_t first_placed_step() const { return first_placed_step_; }
  /// Where lay_out threw: the segment that was refused at last, if there was one.
  const std::optional<RefusedPlaces>& refused_places() const { return refused_places_; }
  /// Of the step or evaluation that begin_step started.
  StepMemory memory() const;
  /// What was held, by category, when `allocated` was highest since the executor was made.
  const CategoryBytes& peak_by_category() const { return peak_by_category_; }
  /// The highest values since the executor was made.
  const StepMemory& run_peak() const;
  const PassCounts& pass_counts() const { return pass_counts_; }

  const Program& program() const { return program_; }
  Device& device() { return device_; }
  const Allocator& allocator() const { return allocator_; }
  const LiveBuffers& live() const { return live_; }

 private:
  /// A routine with the addresses of its calls: for each its inputs, outputs and workspace, one after the other.
  struct Layout {
    const Routine* routine = nullptr;
    std::size_t operands_begin = 0, operands_end = 0;
    std::size_t fields_begin = 0;  ///< in Sequence::fields, as many as the routine has
  };
  /// Routines that were laid out one after the other.
  struct Sequence {
    std::vector<const Routine*> routines;
    std::vector<Layout> layouts;
    std::vector<void*> operands;  ///< of all calls
    std::vector<void*> fields;    ///< of all routines
    StepMemory memory;            ///< with the peaks of these routines alone; of kept sequences only
  };
  /// Calls [begin, end) of those of a pass. What carries tensors between ranks stands alone and is not recorded: ranks
  /// would have to record at once, and each does when its own addresses repeat.
  struct PassPart {
    std::size_t begin = 0, end = std::numeric_limits<std::size_t>::max();
    bool is_recorded = true;
    std::unique_ptr<Recording> recording = nullptr;
  };
  /// A pass as it was queued before, and its recordings once it came a second time with the same addresses.
  struct Pass {
    std::vector<const Routine*> routines;
    std::vector<void*> operands;
    std::vector<PassPart> parts;
  };

  /// A step that is recorded whole.
  struct FedLayout {
    std::vector<const Routine*> routines;
    std::vector<void*> operands;
    std::vector<void*> fields;  ///< of the first routine
    std::unique_ptr<Recording> one, several;
    bool is_recorded_alone = false;  ///< the device refused several in one
  };
  struct FedSteps {
    std::unique_ptr<StepFeed> feed;
    std::vector<BufferId> results;
    std::vector<FedLayout> layouts;
    std::size_t current = 0;  ///< the layout of those that wait
    int num_waiting = 0;
    std::int64_t num_fed = 0;
  };

  FedLayout& find_fed(const Sequence& sequence, bool& has_same_addresses);
  void queue_fed_step(const FedLayout& layout);
  std::int64_t num_bytes_of(BufferId buffer) const { return program_.buffers[buffer].num_bytes; }
  Sequence* find_kept(std::span<const Routine* const> routines);
  Sequence& begin_layout();
  void lay_out(const Routine& routine, Sequence& sequence);
  void walk(const Instruction& instruction, std::vector<void*>& operands);
  void begin_pass(const Sequence& sequence, const Layout& layout, const StepScalars& scalars, const HostBatch* batch);
  std::span<void* const> fields_of(const Sequence& sequence, const Layout& layout) const {
    return std::span(sequence.fields).subspan(layout.fields_begin, layout.routine->fields.size());
  }
  template <typename Function>
  void for_every_call(std::size_t first, std::size_t count, const PassPart& part, Function visit) const;
  void queue_calls(std::size_t first, std::size_t count, const PassPart& part);
  void queue_branched_calls(std::size_t first, std::size_t count, const PassPart& part);
  std::vector<PassPart> parts_of(std::size_t first, std::size_t count) const;
  bool replay(std::size_t first, std::size_t count, PassPart& part);
  std::unique_ptr<Recording> record(const std::function<void()>& queue, std::string& obstacle);
  void run_call(std::int32_t index, const void* const* operands);
  Pass& find_pass(std::size_t first, std::size_t count, bool& has_same_addresses);
  void allocate(std::int32_t buffer);
  void release(std::int32_t buffer) noexcept;
  void start_timeline(const Routine& routine);
  void note(const Instruction& instruction);
  void count_peaks_anew();

  const Program& program_;
  Device& device_;
  Allocator& allocator_;
  const ExecutorOptions options_;
  LiveBuffers live_;
  TransientPlaces places_;
  std::optional<RefusedPlaces> refused_places_;
  std::vector<Kernel*> kernels_;                    ///< by call; null until prepared
  std::int64_t num_persistent_ = 0, num_live_ = 0;  ///< buffers
  std::vector<Sequence> sequences_;                 ///< kept ones; else the one that is laid out
  std::size_t laid_out_ = 0;                        ///< the one of `sequences_` that is
  std::vector<void*> observed_operands_;
  std::vector<Transfer> transfers_;  ///< of the fields of one batch
  std::vector<Pass> passes_;
  bool is_staged_ = false;
  FedSteps fed_;
  std::int64_t num_recorded_branches_ = 0;  ///< of the pass that was queued for a recording last
  bool layout_keeps_segments_ = false;      ///< the last layout took none and gave none back
  PassCounts pass_counts_;

  std::int64_t step_ = 0, first_placed_step_ = -1;
  /// Note [Timeline of accumulated steps]
  /// The timeline holds the first micro-batch of a step, its newest further one, and the update: what differs. So its
  /// room is known beforehand, however many micro-batches a step has.
  std::vector<TimelinePoint> timeline_;
  std::size_t further_begin_ = 0;        ///< where the points of further micro-batches begin
  std::vector<const Routine*> further_;  ///< what runs for them, or for parts of batches

  CategoryBytes by_category_{}, peak_by_category_{};
  std::int64_t highest_allocated_ = 0;
  /// Peaks of this step that the allocator's counters do not tell: of kept sequences, and of what was walked before the
  /// counters were reset within the step.
  StepMemory other_peaks_;
  bool counters_are_old_ = false;  ///< the allocator's peaks are those of an earlier step
  mutable StepMemory run_peak_;
};

}  // namespace trainer
