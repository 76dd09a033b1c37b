#include "engine/cpu/cpu_device.h"

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include <cstring>
#include <latch>
#include <string>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <vector>

#include "engine/cpu/dnnl_call.h"
#include "engine/cpu/exchange_thread.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/packing_memory.h"
#include "engine/device/aligned_memory.h"
#include "engine/device/processor.h"
#include "engine/device/thread_limit.h"
#include "engine/memory/host_source.h"
#include "engine/memory/machine_memory.h"
#include "engine/ops/op_definition.h"

namespace trainer {

namespace {

struct DestroyEngine {
  void operator()(dnnl_engine* engine) const noexcept { dnnl_engine_destroy(engine); }
};
struct DestroyStream {
  void operator()(dnnl_stream* stream) const noexcept { dnnl_stream_destroy(stream); }
};

/// A CPU kernel under the scalars of the device's running pass.
class BoundKernel final : public Kernel {
 public:
  BoundKernel(std::unique_ptr<CpuKernel> kernel, const CpuContext& context)
      : kernel_(std::move(kernel)), context_(context) {}
  void run(const OperandAddresses& addresses) override { kernel_->run(addresses, context_.scalars); }

 private:
  std::unique_ptr<CpuKernel> kernel_;
  const CpuContext& context_;
};

/// Kernels run in the calling thread before run() returns, so nothing is ever queued but exchanges that are started.
class CpuDevice final : public Device {
 public:
  explicit CpuDevice(int num_threads)
      : name_(processor_name() + ", " + std::to_string(num_threads) + (num_threads == 1 ? " thread" : " threads")) {
    dnnl_engine_t engine = nullptr;
    require_dnnl(dnnl_engine_create(&engine, dnnl_cpu, 0), "start the CPU engine");
    engine_.reset(engine);
    dnnl_stream_t stream = nullptr;
    require_dnnl(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags), "create a stream");
    stream_.reset(stream);
    context_.num_threads = num_threads;
    context_.engine = engine;
    context_.stream = stream;
    context_.slots = &slots_;
    outside_bytes_ = resident_bytes();
  }

  bool copies_at_once() const override { return true; }
  std::int64_t library_bytes(const Op& op) const override { return packing_bytes(op, context_.num_threads); }

  std::string kind() const override { return "cpu"; }
  std::string name() const override { return name_; }

  std::int64_t workspace_bytes(const Op& op) const override {
    // None, and not remembered: each stage has updates of its own.
    if (definition_of(op.kind).role == Role::update) return 0;
    const auto known = workspace_bytes_.find(op);
    if (known != workspace_bytes_.end()) return known->second;
    omp_set_num_threads(context_.num_threads);
    const std::int64_t num_bytes = compute_workspace_bytes(op, context_);
    workspace_bytes_.emplace(op, num_bytes);
    return num_bytes;
  }

  Kernel& prepare(const Op& op) override {
    const auto known = kernels_.find(op);
    if (known != kernels_.end()) return *known->second;
    omp_set_num_threads(context_.num_threads);
    return *kernels_.emplace(op, std::make_unique<BoundKernel>(make_kernel_of(op, context_), context_)).first->second;
  }

  void drop_updates() override {
    std::erase_if(kernels_, [](const auto& known) { return definition_of(known.first.kind).role == Role::update; });
  }

  void set_communicator(Communicator& communicator) override {
    context_.communicator = &communicator;
    context_.exchanges = &exchanges_;
  }
  void settle_exchanges() noexcept override { exchanges_.drop(); }

  std::unique_ptr<MemorySource> make_memory_source(std::int64_t capacity) override {
    return std::make_unique<HostSource>(capacity);
  }
  std::int64_t available_bytes() const override { return machine_memory().available; }
  std::int64_t used_bytes() const override { return resident_bytes(); }
  std::int64_t total_bytes() const override { return machine_memory().total; }
  std::vector<NamedBytes> outside_allocator() const override { return {{"program and libraries", outside_bytes_}}; }

  std::unique_ptr<HostMemory> make_host_memory(std::int64_t num_bytes) override {
    return std::make_unique<AlignedMemory>(num_bytes);
  }
  void begin_pass(const StepScalars& scalars, std::span<const Transfer> staged) override {
    context_.scalars = scalars;
    copy_ahead(staged);
  }
  void copy_ahead(std::span<const Transfer> transfers) override {
    for (const Transfer& transfer : transfers) copy(transfer.destination, transfer.source, transfer.num_bytes);
  }
  void finish_copy_ahead() override {}

  void copy_to_device(void* destination, const void* source, std::int64_t num_bytes) override {
    copy(destination, source, num_bytes);
  }
  void copy_to_host(void* destination, const void* source, std::int64_t num_bytes) override {
    copy(destination, source, num_bytes);
  }
  void fill_zero(void* destination, std::int64_t num_bytes) override {
    if (num_bytes > 0) std::memset(destination, 0, static_cast<std::size_t>(num_bytes));
  }
  void synchronize() override { exchanges_.finish_all(); }

 private:
  static void copy(void* destination, const void* source, std::int64_t num_bytes) {
    if (num_bytes > 0) std::memcpy(destination, source, static_cast<std::size_t>(num_bytes));
  }

  std::string name_;
  std::unique_ptr<dnnl_engine, DestroyEngine> engine_;
  std::unique_ptr<dnnl_stream, DestroyStream> stream_;
  HostSlots slots_{[](std::int64_t num_bytes) { return std::make_unique<AlignedMemory>(num_bytes); }};
  mutable CpuContext context_;
  mutable std::unordered_map<Op, std::int64_t, OpHash> workspace_bytes_;
  std::unordered_map<Op, std::unique_ptr<Kernel>, OpHash> kernels_;
  ExchangeThread exchanges_;
  std::int64_t outside_bytes_ = 0;
};

/// OpenMP ends the process where one of its threads cannot start; so it is seen before whether as many can, beside
/// those that read batches ahead for training and evaluation.
void require_threads(int num_threads) {
  if (num_threads == 1) return;  // OpenMP starts none
  num_threads += num_reader_threads;
  std::latch all_started(1);
  std::vector<std::thread> threads;
  int num_started = 1;  // this one
  try {
    for (; num_started < num_threads; ++num_started) threads.emplace_back([&] { all_started.wait(); });
  } catch (const std::system_error&) {  // told below
  }
  all_started.count_down();
  for (std::thread& thread : threads) thread.join();
  if (num_started < num_threads) throw thread_limit_error(num_started, num_threads);
}

}  // namespace

std::unique_ptr<Device> make_cpu_device(int num_threads) {
  if (num_threads <= 0) num_threads = usable_threads();
  require_threads(num_threads);
  return std::make_unique<CpuDevice>(num_threads);
}

std::string cpu_library_version() {
  const dnnl_version_t* version = dnnl_version();
  return "oneDNN " + std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch);
}

}  // namespace trainer
