#include "tests/cuda/emulated_device.h"

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cuda/kernels/begin_pass.h"
#include "cuda/library/group_links.h"
#include "cuda/library/rank_gpus.h"
#include "cuda/model/bounded_planner.h"
#include "cuda/ops/branches.h"
#include "cuda/ops/kernels.h"
#include "cuda/ops/linear_call.h"
#include "cuda/ops/slot_copies.h"
#include "cuda/ops/started_exchanges.h"
#include "cuda/ops/step_places.h"
#include "engine/device/aligned_memory.h"
#include "engine/memory/host_source.h"
#include "engine/memory/machine_memory.h"
#include "engine/ops/op_definition.h"
#include "tests/cuda/capture_rules.h"
#include "tests/cuda/deferred_queues.h"
#include "tests/cuda/host_attention.h"
#include "tests/cuda/host_convolution.h"
#include "tests/cuda/host_matmul.h"

namespace trainer::cuda {

namespace {

class HostLibrary final : public Library {
 public:
  HostLibrary(bool relu_hides_nan, std::optional<LibraryAttention> attention)
      : relu_hides_nan_(relu_hides_nan), attention_(attention) {}
  std::unique_ptr<Matmul> prepare(const MatmulCall& call) override { return make_host_matmul(call, relu_hides_nan_); }
  std::unique_ptr<Convolution> prepare(const ConvolutionCall& call) override { return make_host_convolution(call); }
  ConvolutionPlanner& convolution_planner() override { return planner_; }
  AttentionPlanner* attention_planner() override { return attention_ ? &attention_planner_ : nullptr; }
  std::shared_ptr<FusedAttention> prepare_attention(const AttentionCall& call) override {
    return attention_ == LibraryAttention::built ? make_host_attention(call) : nullptr;
  }

 private:
  bool relu_hides_nan_;
  std::optional<LibraryAttention> attention_;
  HostConvolutionPlanner planner_;
  HostAttentionPlanner attention_planner_;
};

void copy(void* destination, const void* source, std::int64_t num_bytes) {
  if (num_bytes > 0) std::memcpy(destination, source, static_cast<std::size_t>(num_bytes));
}

/// Where kernels, fills and copies go: the device's queues, or a recording.
class Queue final : public SideStreams {
 public:
  using Work = DeferredQueues::Work;
  using Recorded = std::vector<std::function<void(DeferredQueues&)>>;

  explicit Queue(DeferredQueues& queues) : queues_(queues) {}

  void add(Work work) {
    if (recorded_ != nullptr) rules_.give(stream_);
    give([work = std::move(work), stream = stream_](DeferredQueues& queues) { queues.add_to(stream, work); });
  }
  /// What add() is given from now on.
  void add_on(StreamKind stream) {
    if (stream == StreamKind::branch) require_recorded();
    if (stream == StreamKind::ranks) require_unrecorded();
    stream_ = stream;
  }
  /// What `queue` adds.
  Recorded record(const std::function<void()>& queue) {
    require_unrecorded();
    Recorded work;
    recorded_ = &work;
    rules_ = {};
    const auto stop = [this](void*) { recorded_ = nullptr; };
    const std::unique_ptr<void, decltype(stop)> stop_at_end(this, stop);
    queue();
    rules_.end();
    return work;
  }
  void require_unrecorded() const {
    require_internal(recorded_ == nullptr, "only kernels, fills and copies on the device are recorded");
  }
  void require_recorded() const {
    require_internal(recorded_ != nullptr, "fed steps and branches are queued within a recording");
  }
  void replay(const Recorded& work) {
    for (const auto& one : work) one(queues_);
  }

  std::int32_t make_event() override { return queues_.make_event(); }
  void record(std::int32_t event, StreamKind stream) override {
    if (recorded_ != nullptr) rules_.record(event, stream);
    give([=](DeferredQueues& queues) { queues.record(event, stream); });
  }
  void wait(StreamKind stream, std::int32_t event) override {
    if (recorded_ != nullptr) rules_.wait(stream, event);
    give([=](DeferredQueues& queues) { queues.wait(stream, event); });
  }
  void copy(StreamKind stream, void* destination, const void* source, std::int64_t num_bytes) override {
    if (recorded_ != nullptr) rules_.give(stream);
    give([=](DeferredQueues& queues) { queues.copy(stream, destination, source, num_bytes); });
  }

 private:
  void give(std::function<void(DeferredQueues&)> work) {
    if (recorded_ != nullptr) {
      recorded_->push_back(std::move(work));
    } else {
      work(queues_);
    }
  }

  DeferredQueues& queues_;
  Recorded* recorded_ = nullptr;
  CaptureRules rules_;
  StreamKind stream_ = StreamKind::kernels;
};

class QueuedKernel final : public Kernel {
 public:
  QueuedKernel(std::unique_ptr<Kernel> kernel, Queue& queue) : kernel_(std::move(kernel)), queue_(queue) {}
  void run(const OperandAddresses& addresses) override {
    queue_.add([this, inputs = std::vector(addresses.inputs.begin(), addresses.inputs.end()),
                outputs = std::vector(addresses.outputs.begin(), addresses.outputs.end()),
                workspace = addresses.workspace] {
      kernel_->run({inputs, outputs, workspace});
    });
  }

 private:
  std::unique_ptr<Kernel> kernel_;
  Queue& queue_;
};

/// What no recording may hold: Note [Ranks of GPUs] in cuda/library/rank_link.h.
class UnrecordedKernel final : public Kernel {
 public:
  UnrecordedKernel(std::unique_ptr<Kernel> kernel, Queue& queue) : kernel_(std::move(kernel), queue), queue_(queue) {}
  void run(const OperandAddresses& addresses) override {
    queue_.require_unrecorded();
    kernel_.run(addresses);
  }

 private:
  QueuedKernel kernel_;
  Queue& queue_;
};

class QueuedRecording final : public Recording {
 public:
  QueuedRecording(Queue::Recorded work, Queue& queue) : work_(std::move(work)), queue_(queue) {}
  void replay() override { queue_.replay(work_); }

 private:
  Queue::Recorded work_;
  Queue& queue_;
};

class EmulatedDevice final : public Device {
 public:
  EmulatedDevice(bool tf32, CopyTiming timing, bool relu_hides_nan, std::optional<LibraryAttention> attention,
                 bool deterministic, const RankSums& sums = {})
      : library_(relu_hides_nan, attention), queues_(timing) {
    context_.deterministic = deterministic;
    context_.sums = sums;
    context_.scalars = &scalars_;
    context_.library = &library_;
    context_.slots = &slots_;
    context_.exchanges = &exchanges_;
    context_.tf32 = tf32;
  }

  std::string kind() const override { return "cuda"; }
  std::string name() const override { return "emulated GPU"; }
  std::int64_t most_workspace_bytes(const Op& op) const override {
    return compute_most_workspace_bytes(op, workspace_model());
  }
  std::int64_t workspace_bytes(const Op& op) const override { return compute_workspace_bytes(op, workspace_model()); }
  bool copies_ahead() const override { return true; }
  LinearFusions linear_fusions() const override { return cuda_linear_fusions(context_.tf32); }
  bool convolution_statistics(const Op& conv2d) const override {
    return conv2d_statistics_pay(conv2d, workspace_model());
  }
  std::vector<NamedBytes> outside_allocator() const override { return {{"this process", resident_bytes()}}; }

  Kernel& prepare(const Op& op) override {
    const auto known = kernels_.find(op);
    if (known != kernels_.end()) return *known->second;
    std::unique_ptr<Kernel> kernel = make_kernel_of(op, context_);
    // Those that carry activations, or wait for exchanges, queue what they do themselves.
    const bool queues_itself =
        op.kind == OpKind::offload || op.kind == OpKind::fetch || op.kind == OpKind::finish_exchange;
    if (is_exchange(op))
      kernel = make_exchange(op, std::make_unique<UnrecordedKernel>(std::move(kernel), queue_), context_);
    else if (!queues_itself)
      kernel = std::make_unique<QueuedKernel>(std::move(kernel), queue_);
    return *kernels_.emplace(op, std::move(kernel)).first->second;
  }
  void set_communicator(Communicator& communicator) override {
    static std::once_flag once;
    std::call_once(once, [] { ::setenv("TRAINER_NCCL", TRAINER_FAKE_NCCL, 1); });
    RankGpu own;
    own.uuid[0] = static_cast<char>(communicator.rank());
    own.nccl_version = nccl().version();
    require_gpus(tell_gpus(communicator, own), false);
    RankLayout& layout = context_.sums.layout;
    if (layout.num_ranks() == 1) layout.num_data = communicator.size();
    layout.rank = communicator.rank();
    links_.emplace(nccl(), communicator, layout, RankLinkOptions{.max_ctas = 1});
    context_.links = &*links_;
  }
  void drop_updates() override {
    std::erase_if(kernels_, [](const auto& known) { return definition_of(known.first.kind).role == Role::update; });
  }

  std::unique_ptr<MemorySource> make_memory_source(std::int64_t capacity) override {
    return std::make_unique<HostSource>(capacity);
  }
  std::int64_t available_bytes() const override { return machine_memory().available; }
  std::int64_t used_bytes() const override { return resident_bytes(); }
  std::int64_t total_bytes() const override { return machine_memory().total; }
  std::unique_ptr<HostMemory> make_host_memory(std::int64_t num_bytes) override {
    return std::make_unique<AlignedMemory>(num_bytes);
  }

  void begin_pass(const StepScalars& scalars, std::span<const Transfer> staged) override {
    queue_.require_unrecorded();
    require_internal(staged.size() <= 2, "a pass begins with at most two copies");
    StagedCopy copies[2];
    for (std::size_t i = 0; i < staged.size(); ++i)
      copies[i] = {staged[i].destination, staged[i].source, staged[i].num_bytes};
    queues_.begin_pass([this, scalars, first = copies[0], second = copies[1]] {
      cuda::begin_pass(scalars, &scalars_, first, second, context_.stream);
    });
  }
  void copy_ahead(std::span<const Transfer> transfers) override {
    queue_.require_unrecorded();
    queues_.copy_ahead([all = std::vector(transfers.begin(), transfers.end())] {
      for (const Transfer& one : all) copy(one.destination, one.source, one.num_bytes);
    });
  }
  void finish_copy_ahead() override { queues_.finish_copy_ahead(); }

  void copy_to_device(void* destination, const void* source, std::int64_t num_bytes) override {
    queue_.require_unrecorded();
    queue_.add([=] { copy(destination, source, num_bytes); });
  }
  void copy_to_host(void* destination, const void* source, std::int64_t num_bytes) override {
    queue_.require_unrecorded();
    queue_.add([=] { copy(destination, source, num_bytes); });
  }
  void fill_zero(void* destination, std::int64_t num_bytes) override {
    queue_.add([=] {
      if (num_bytes > 0) std::memset(destination, 0, static_cast<std::size_t>(num_bytes));
    });
  }

  bool runs_ahead() const override { return true; }
  std::int64_t set_mark() override { return queues_.mark(); }
  void wait_for(std::int64_t mark) override { queues_.wait_for(mark); }
  void synchronize() override { queues_.synchronize(); }

  std::unique_ptr<Recording> record(const std::function<void()>& queue, std::string& obstacle) override {
    return branches_.record(
        [&](std::string&) { return std::make_unique<QueuedRecording>(queue_.record(queue), queue_); }, obstacle);
  }
  bool has_branches() const override { return branches_.are_granted(); }
  std::int64_t branch(const std::function<void()>& queue) override { return branches_.branch(queue); }
  void join(std::int64_t branch) override { branches_.join(branch); }
  std::unique_ptr<StepFeed> make_step_feed(const StepFeedShape& shape) override {
    fill_zero(&num_fed_steps_, sizeof(num_fed_steps_));
    return std::make_unique<StepPlaces>(
        shape, [this](std::int64_t num_bytes) { return make_host_memory(num_bytes); },
        FedStepState{&scalars_, &num_fed_steps_},
        [this](const std::function<void(Stream)>& launch) {
          queue_.require_recorded();
          queue_.add([this, launch] { launch(context_.stream); });
        });
  }

 private:
  WorkspaceModel workspace_model() const {
    return {.convolutions = &library_.convolution_planner(),
            .tf32 = context_.tf32,
            .attentions = library_.attention_planner(),
            .deterministic = context_.deterministic,
            .sums_in_order = context_.sums.in_order};
  }

  mutable HostLibrary library_;
  StepScalars scalars_;  // the device's own
  std::int64_t num_fed_steps_ = 0;
  CudaContext context_;
  std::optional<GroupLinks> links_;
  DeferredQueues queues_;
  Queue queue_{queues_};
  HostSlots slot_memory_{[](std::int64_t num_bytes) { return std::make_unique<AlignedMemory>(num_bytes); }};
  SlotCopies slots_{queue_, slot_memory_};
  Branches branches_{queue_, [this](StreamKind stream) { queue_.add_on(stream); }};
  StartedExchanges exchanges_{queue_, [this](StreamKind stream) { queue_.add_on(stream); }};
  std::unordered_map<Op, std::unique_ptr<Kernel>, OpHash> kernels_;
};

}  // namespace

std::unique_ptr<Device> make_emulated_device(bool tf32, CopyTiming timing, bool relu_hides_nan) {
  return std::make_unique<EmulatedDevice>(tf32, timing, relu_hides_nan, std::nullopt, true);
}

std::unique_ptr<Device> make_emulated_device(LibraryAttention attention, bool deterministic) {
  return std::make_unique<EmulatedDevice>(false, CopyTiming::late, false, attention, deterministic);
}

std::unique_ptr<Device> make_emulated_device(const RankSums& sums, CopyTiming timing) {
  return std::make_unique<EmulatedDevice>(false, timing, false, std::nullopt, true, sums);
}

}  // namespace trainer::cuda
