#include "cuda/device/cuda_device.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <string_view>
#include <utility>

#include "cuda/device/cuda_call.h"
#include "cuda/device/cuda_facts.h"
#include "cuda/device/cuda_source.h"
#include "cuda/device/kernel_images.h"
#include "cuda/device/pinned_memory.h"
#include "cuda/device/profiler_ranges.h"
#include "cuda/device/recorded_graph.h"
#include "cuda/kernels/begin_pass.h"
#include "cuda/kernels/step_scalars_storage.h"
#include "cuda/library/rank_gpus.h"
#include "cuda/model/bounded_planner.h"
#include "cuda/model/nccl_memory.h"
#include "cuda/ops/step_places.h"
#include "engine/bytes.h"
#include "engine/errors.h"
#include "engine/ops/attention.h"
#include "engine/ops/conv2d.h"
#include "engine/ops/op_definition.h"

namespace trainer::cuda {

namespace {

/// What is left to CUDA and its libraries: the code of their kernels is loaded when it first runs, and a launch that
/// finds no room for it fails as a fault would.
constexpr std::int64_t loaded_later_bytes = std::int64_t{64} << 20;

constexpr const char* estimated_nccl = "estimated NCCL buffers";

FreeAndTotal ask_memory() {
  std::size_t free = 0, total = 0;
  require_cuda(cudaMemGetInfo(&free, &total), "ask for free memory");
  return {static_cast<std::int64_t>(free), static_cast<std::int64_t>(total)};
}

std::optional<NvmlDevice> find_in_nvml(int index) {
  const NvmlCalls* calls = load_nvml();
  return calls != nullptr ? NvmlDevice::find(*calls, pci_bus_id(index)) : std::nullopt;
}

void copy(void* destination, const void* source, std::int64_t num_bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (num_bytes == 0) return;
  require_cuda(cudaMemcpyAsync(destination, source, static_cast<std::size_t>(num_bytes), kind, stream),
               kind == cudaMemcpyHostToDevice ? "copy to the GPU" : "copy from the GPU");
}

/// Exchanges zeros with those with whom stages, and sums in one order, will: NCCL connects a pair when it first does.
void meet_partners(RankLink& ranks, const RankSums& sums, void* zeros, Stream stream) {
  constexpr std::int64_t half = sizeof(std::int32_t);
  const std::array sent = {RankTensor{zeros, half}};
  const std::array received = {RankTensor{static_cast<std::byte*>(zeros) + half, half}};
  const auto meet = [&](std::int64_t other) {
    ranks.exchange(static_cast<int>(other), sent, received, DType::u8, stream);
  };
  const RankGroup shared = sums.layout.data_group();
  const std::int64_t place = sums.layout.data_place();
  require_internal(!sums.in_order || std::has_single_bit(static_cast<std::uint64_t>(shared.count)),
                   "ranks add up in pairs");
  for (std::int64_t bit = 1; sums.in_order && shared.count > 2 && bit < shared.count; bit *= 2)
    meet(shared.rank_at(place ^ bit));
  // Stages 0 and 1, 2 and 3, … and then 1 and 2, …: none waits for one that waits for another.
  const RankGroup stages = sums.layout.pipeline_group();
  const std::int64_t stage = sums.layout.stage();
  for (const std::int64_t first : {0, 1}) {
    const std::int64_t other = stage % 2 == first ? stage + 1 : stage - 1;
    if (other >= 0 && other < stages.count) meet(stages.rank_at(other));
  }
}

}  // namespace

CudaDevice::CudaDevice(int index, std::string name, const CudaOptions& options, DeviceUsage usage,
                       std::shared_ptr<MemoryChanges> changes)
    : index_(index),
      name_(std::move(name)),
      expandable_segments_(options.expandable_segments),
      usage_(std::move(usage)),
      changes_(std::move(changes)) {
  const FreeAndTotal at_first = ask_memory();
  total_bytes_ = at_first.total_bytes;
  measure("cuBLASLt", [&] { library_.start_matmuls(); });
  measure("cuDNN", [&] { library_.start_convolutions(options); });
  measure("kernels", [] { load_kernels(); });
  settle_outside_bytes(at_first.free_bytes);
  nccl_to_come_ = estimated_nccl_memory(options.sums).num_bytes;
  if (nccl_to_come_ > 0) outside_.push_back({estimated_nccl, nccl_to_come_});

  scalars_ = step_scalars_storage();
  num_fed_steps_ = fed_steps_storage();
  const bool are_there = scalars_ != nullptr && num_fed_steps_ != nullptr;
  if (!are_there) require_cuda(cudaGetLastError(), "find the step's numbers in its memory");
  require_internal(are_there, "the step's numbers have a place in the device's memory");
  context_.stream = compute_.get();
  context_.scalars = scalars_;
  context_.library = &library_;
  context_.slots = &slots_;
  context_.exchanges = &exchanges_;
  context_.tf32 = options.tf32;
  context_.deterministic = options.deterministic;
  context_.sums = options.sums;
}

CudaDevice::~CudaDevice() {
  // Kernels own what queued work may still use.
  cudaStreamSynchronize(compute_.get());
  cudaStreamSynchronize(copies_.get());
  side_streams_.settle();
  cudaGetLastError();
}

template <typename Function>
void CudaDevice::measure(const char* name, Function make) {
  const std::int64_t free_before = ask_memory().free_bytes;
  make();
  outside_.push_back({name, std::max<std::int64_t>(0, free_before - ask_memory().free_bytes)});
}

void CudaDevice::settle_outside_bytes(std::int64_t free_at_first) {
  usage_.find_this_process();
  std::int64_t rest = usage_.used_bytes();
  for (const NamedBytes& part : outside_) rest -= part.num_bytes;
  rest = std::max<std::int64_t>(0, rest);
  // Where the device's count is of all processes, so is what remains of it.
  std::int64_t context_bytes = rest;
  if (!usage_.knows_this_process())
    context_bytes = usage_.free_before() ? std::clamp<std::int64_t>(*usage_.free_before() - free_at_first, 0, rest) : 0;
  outside_.insert(outside_.begin(), {"CUDA context", context_bytes});
  if (!usage_.knows_this_process()) outside_.push_back({"other processes and the driver", rest - context_bytes});
}

WorkspaceModel CudaDevice::workspace_model() const {
  return {.convolutions = &library_.convolution_planner(),
          .tf32 = context_.tf32,
          .matmuls = library_.matmul_planner(),
          .attentions = library_.attention_planner(),
          .deterministic = context_.deterministic,
          .sums_in_order = context_.sums.in_order};
}

std::int64_t CudaDevice::workspace_bytes(const Op& op) const {
  // None, and not remembered: each stage has updates of its own.
  if (definition_of(op.kind).role == Role::update) return 0;
  const auto known = workspace_bytes_.find(op);
  if (known != workspace_bytes_.end()) return known->second;
  const std::int64_t num_bytes = compute_workspace_bytes(op, workspace_model());
  workspace_bytes_.emplace(op, num_bytes);
  return num_bytes;
}

std::int64_t CudaDevice::most_workspace_bytes(const Op& op) const {
  // As of a described device.
  if (library_.matmul_planner() != nullptr) return unknown_workspace_bytes;
  return compute_most_workspace_bytes(op, workspace_model());
}

bool CudaDevice::convolution_statistics(const Op& conv2d) const {
  return conv2d_statistics_pay(conv2d, workspace_model());
}

Kernel& CudaDevice::prepare(const Op& op) {
  use_device(index_);
  const auto known = kernels_.find(op);
  if (known != kernels_.end()) return *known->second;
  std::unique_ptr<Kernel> kernel = make_kernel_of(op, context_);
  if (is_exchange(op)) kernel = make_exchange(op, std::move(kernel), context_);
  return *kernels_.emplace(op, std::move(kernel)).first->second;
}

void CudaDevice::set_communicator(Communicator& communicator) {
  use_device(index_);
  RankGpu own;
  cudaDeviceProp properties{};
  require_cuda(cudaGetDeviceProperties(&properties, index_), "look at the GPU");
  std::copy_n(properties.uuid.bytes, own.uuid.size(), own.uuid.begin());
  std::string_view(name_).copy(own.name.data(), own.name.size() - 1);
  own.index = index_;
  own.nccl_version = nccl().version();
  context_.sums.layout.rank = communicator.rank();
  const std::vector<RankGpu> gpus = tell_gpus(communicator, own);
  require_gpus(gpus, ranks_may_share());
  const int sharing = num_sharing(gpus, communicator.rank());
  const int max_ctas = std::max(1, usual_nccl_channels / most_sharing(gpus));
  start_nccl(communicator, max_ctas, sharing);
  context_.links = &*links_;
  if (sharing == 1) return;
  own_share_ = available_bytes() / sharing + changes_->held();
  meet_ranks(communicator);  // before any takes memory, all have looked
}

/// What NCCL takes is measured between two moments at which none of those who share the GPU does anything else.
void CudaDevice::start_nccl(Communicator& communicator, int max_ctas, int num_sharing) {
  std::erase_if(outside_, [](const NamedBytes& part) { return part.name == estimated_nccl; });
  nccl_to_come_ = 0;
  meet_ranks(communicator);
  measure("NCCL", [&] {
    links_.emplace(nccl(), communicator, context_.sums.layout,
                   RankLinkOptions{.max_ctas = max_ctas,
                                   .deterministic = context_.deterministic,
                                   .use_device = [index = index_] { use_device(index); }});
    // A sum of zeros, which the device has a place for: what does not work shows here, and what is loaded for it is.
    fill_zero(num_fed_steps_, sizeof(*num_fed_steps_));
    links_->for_each([&](RankLink& link) {
      link.all_reduce(std::array{RankTensor{num_fed_steps_, 1}}, DType::i64, compute_.get());
    });
    meet_partners(links_->all(), context_.sums, num_fed_steps_, compute_.get());
    synchronize();
    meet_ranks(communicator);
  });
  outside_.back().num_bytes /= num_sharing;
  nccl_bytes_ = outside_.back().num_bytes;
  usage_.ask_used_bytes();  // from which it counts on
}

template <typename Function>
void CudaDevice::wait(Function wait_for_device) {
  if (!links_) return wait_for_device();
  try {
    wait_for_device();
  } catch (const DeviceError&) {
    links_->check_soon();
    throw;
  }
  links_->check();
}

void CudaDevice::drop_updates() {
  std::erase_if(kernels_, [](const auto& known) { return definition_of(known.first.kind).role == Role::update; });
}

std::unique_ptr<MemorySource> CudaDevice::make_memory_source(std::int64_t capacity) {
  use_device(index_);
  const MemoryCalls calls = memory_calls_of(index_);
  if (expandable_segments_ && !calls.has_ranges())
    throw DeviceError(name_ + " and its driver have no virtual memory of their own, which memory.expandable_segments " +
                      "needs; use memory.expandable_segments=false");
  return std::make_unique<CudaSource>(index_, capacity, calls, changes_);
}

std::int64_t CudaDevice::available_bytes() const {
  use_device(index_);
  const std::int64_t free_bytes = ask_memory().free_bytes - loaded_later_bytes - nccl_to_come_;
  return std::max<std::int64_t>(0, own_share_ ? std::min(free_bytes, *own_share_ - changes_->held()) : free_bytes);
}

CommunicationMemory CudaDevice::communication_memory(const RankLayout& ranks) const {
  if (!links_) return estimated_nccl_memory({.layout = ranks, .in_order = context_.sums.in_order});
  return {nccl_bytes_, {}};
}

std::int64_t CudaDevice::ask_used_bytes() const {
  use_device(index_);
  return usage_.ask_used_bytes();
}

std::unique_ptr<HostMemory> CudaDevice::make_host_memory(std::int64_t num_bytes) {
  use_device(index_);
  return std::make_unique<PinnedMemory>(num_bytes);
}

void CudaDevice::begin_pass(const StepScalars& scalars, std::span<const Transfer> staged) {
  use_device(index_);
  staged_.hold_back(compute_.get());
  // A kernel takes two.
  for (std::size_t first = 0; first == 0 || first < staged.size(); first += 2) {
    const std::span<const Transfer> both = staged.subspan(first, std::min<std::size_t>(2, staged.size() - first));
    std::array<StagedCopy, 2> copies{};
    std::transform(both.begin(), both.end(), copies.begin(), [](const Transfer& transfer) {
      return StagedCopy{transfer.destination, transfer.source, transfer.num_bytes};
    });
    cuda::begin_pass(scalars, scalars_, copies[0], copies[1], compute_.get());
  }
  if (!staged.empty()) taken_.record(compute_.get());
}

void CudaDevice::copy_ahead(std::span<const Transfer> transfers) {
  use_device(index_);
  taken_.hold_back(copies_.get());
  for (const Transfer& transfer : transfers)
    copy(transfer.destination, transfer.source, transfer.num_bytes, cudaMemcpyHostToDevice, copies_.get());
  staged_.record(copies_.get());
}

void CudaDevice::finish_copy_ahead() { staged_.wait(); }

void CudaDevice::copy_to_device(void* destination, const void* source, std::int64_t num_bytes) {
  copy(destination, source, num_bytes, cudaMemcpyHostToDevice, compute_.get());
}

void CudaDevice::copy_to_host(void* destination, const void* source, std::int64_t num_bytes) {
  copy(destination, source, num_bytes, cudaMemcpyDeviceToHost, compute_.get());
}

void CudaDevice::fill_zero(void* destination, std::int64_t num_bytes) {
  if (num_bytes == 0) return;
  require_cuda(cudaMemsetAsync(destination, 0, static_cast<std::size_t>(num_bytes), compute_.get()),
               "fill memory of the GPU");
}

std::int64_t CudaDevice::set_mark() {
  const std::int64_t mark = next_mark_++;
  marks_[static_cast<std::size_t>(mark) % marks_.size()].record(compute_.get());
  return mark;
}

void CudaDevice::wait_for(std::int64_t mark) {
  require_internal(mark >= 0 && mark < next_mark_, "a mark is set before it is waited for");
  // An older mark's event may stand for a later one, which is behind it.
  wait([&] { marks_[static_cast<std::size_t>(mark) % marks_.size()].wait(); });
}

void CudaDevice::synchronize() {
  wait([&] {
    require_cuda(cudaStreamSynchronize(compute_.get()), "wait for its kernels");
    require_cuda(cudaStreamSynchronize(copies_.get()), "wait for its copies");
    side_streams_.synchronize();
  });
}

std::unique_ptr<Recording> CudaDevice::record(const std::function<void()>& queue, std::string& obstacle) {
  use_device(index_);
  return branches_.record([&](std::string& reason) { return record_graph(compute_.get(), queue, reason); }, obstacle);
}

std::vector<std::string> CudaDevice::notes() const {
  std::vector<std::string> notes = library_.notes();
  if (!branches_.obstacle().empty())
    notes.push_back(
        "CUDA refused to record a step with branches, so from then on weights' gradients hold back what follows "
        "them: " +
        branches_.obstacle());
  return notes;
}

std::unique_ptr<StepFeed> CudaDevice::make_step_feed(const StepFeedShape& shape) {
  use_device(index_);
  fill_zero(num_fed_steps_, sizeof(*num_fed_steps_));
  return std::make_unique<StepPlaces>(
      shape, [this](std::int64_t num_bytes) { return make_host_memory(num_bytes); },
      FedStepState{scalars_, num_fed_steps_},
      [this](const std::function<void(Stream)>& launch) { launch(compute_.get()); });
}

void CudaDevice::push_range(const char* name) { push_profiler_range(name); }
void CudaDevice::pop_range() { pop_profiler_range(); }

void CudaDevice::try_libraries() {
  prepare(conv2d_op({DType::f32, {8, 16, 16, 32}}, {.out = 32, .kernel = {3, 3}, .padding = {1, 1}}));
  prepare(attention_op(TensorType{DType::f16, {8, 128, 3 * 64}}, {.causal = true, .workspace_limit = 1024}));
}

std::unique_ptr<CudaDevice> make_cuda_device(int index, const CudaOptions& options) {
  CudaDeviceInfo info = describe_device(index);
  if (!info.problem.empty()) throw DeviceError(info.problem);
  auto changes = std::make_shared<MemoryChanges>();
  DeviceUsage usage(find_in_nvml(index), ask_memory, getpid(), changes);
  use_device(index);
  require_cuda(cudaFree(nullptr), "start the GPU");
  return std::make_unique<CudaDevice>(index, info.name, options, std::move(usage), std::move(changes));
}

}  // namespace trainer::cuda
