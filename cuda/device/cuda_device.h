#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "cuda/device/cuda_library.h"
#include "cuda/device/cuda_side_streams.h"
#include "cuda/device/device_usage.h"
#include "cuda/device/stream_handles.h"
#include "cuda/library/group_links.h"
#include "cuda/model/cuda_options.h"
#include "cuda/ops/branches.h"
#include "cuda/ops/kernels.h"
#include "cuda/ops/linear_call.h"
#include "cuda/ops/slot_copies.h"
#include "cuda/ops/started_exchanges.h"
#include "engine/device/device.h"

namespace trainer::cuda {

/// A GPU: kernels on one stream, in recordings on two, the next batch and activations that wait on the host on others.
/// Used by one thread at a time; a thread begins with begin_pass, prepare, or what makes memory.
class CudaDevice final : public Device {
 public:
  /// `usage` was made before this process used the device; `scalars` is where its kernels read the step's numbers.
  CudaDevice(int index, std::string name, const CudaOptions& options, DeviceUsage usage,
             std::shared_ptr<MemoryChanges> changes);
  ~CudaDevice() override;

  std::string kind() const override { return "cuda"; }
  std::string name() const override { return name_; }
  std::int64_t workspace_bytes(const Op& op) const override;
  std::int64_t most_workspace_bytes(const Op& op) const override;
  bool copies_ahead() const override { return true; }
  LinearFusions linear_fusions() const override { return cuda_linear_fusions(context_.tf32); }
  bool convolution_statistics(const Op& conv2d) const override;
  bool runs_ahead() const override { return true; }
  std::vector<NamedBytes> outside_allocator() const override { return outside_; }
  CommunicationMemory communication_memory(const RankLayout& ranks) const override;

  Kernel& prepare(const Op& op) override;
  void drop_updates() override;
  /// Note [Ranks of GPUs] in cuda/library/rank_link.h. Where ranks share this GPU, each has a part of what is free when
  /// all have met.
  void set_communicator(Communicator& communicator) override;
  void settle_exchanges() noexcept override { side_streams_.settle(); }

  std::unique_ptr<MemorySource> make_memory_source(std::int64_t capacity) override;
  /// What is free, without what the libraries will take for kernels that they load when they first run, and NCCL where
  /// it has not been started.
  std::int64_t available_bytes() const override;
  std::int64_t used_bytes() const override { return usage_.used_bytes(); }
  std::int64_t ask_used_bytes() const override;
  std::int64_t total_bytes() const override { return total_bytes_; }
  std::vector<DeviceProcess> other_processes() const override { return usage_.other_processes(); }
  std::unique_ptr<HostMemory> make_host_memory(std::int64_t num_bytes) override;

  void begin_pass(const StepScalars& scalars, std::span<const Transfer> staged) override;
  void copy_ahead(std::span<const Transfer> transfers) override;
  void finish_copy_ahead() override;

  void copy_to_device(void* destination, const void* source, std::int64_t num_bytes) override;
  void copy_to_host(void* destination, const void* source, std::int64_t num_bytes) override;
  void fill_zero(void* destination, std::int64_t num_bytes) override;
  std::int64_t set_mark() override;
  void wait_for(std::int64_t mark) override;
  void synchronize() override;

  std::unique_ptr<Recording> record(const std::function<void()>& queue, std::string& obstacle) override;
  bool has_branches() const override { return branches_.are_granted(); }
  std::int64_t branch(const std::function<void()>& queue) override { return branches_.branch(queue); }
  void join(std::int64_t branch) override { branches_.join(branch); }
  std::unique_ptr<StepFeed> make_step_feed(const StepFeedShape& shape) override;
  void push_range(const char* name) override;
  void pop_range() override;

  std::vector<std::string> notes() const override;

  /// Prepares a convolution and attention that run nowhere, so that notes() tells what would become of others.
  void try_libraries();
  /// What used_bytes counts, in words.
  std::string used_bytes_origin() const { return usage_.origin(); }
  /// What a profile must carry to plan for this device elsewhere, as JSON.
  const std::string& cudnn_properties() const { return library_.cudnn_properties(); }

 private:
  /// Calls `make`, and counts what of the device's memory it took under `name`.
  template <typename Function>
  void measure(const char* name, Function make);
  void settle_outside_bytes(std::int64_t free_at_first);
  void start_nccl(Communicator& communicator, int max_ctas, int num_sharing);
  /// A wait for the device, which tells of a rank that has failed where that is why it ends.
  template <typename Function>
  void wait(Function wait_for_device);
  WorkspaceModel workspace_model() const;

  int index_;
  std::string name_;
  bool expandable_segments_;
  std::int64_t total_bytes_ = 0;
  mutable DeviceUsage usage_;
  std::shared_ptr<MemoryChanges> changes_;
  std::vector<NamedBytes> outside_;
  std::int64_t nccl_to_come_ = 0;          ///< estimated, until it is there
  std::int64_t nccl_bytes_ = 0;            ///< once it is
  std::optional<std::int64_t> own_share_;  ///< of what was free, where ranks share this GPU

  OwnedStream compute_, copies_;
  OwnedEvent staged_;  ///< in copies_: what copy_ahead brought is there
  OwnedEvent taken_;   ///< in compute_: begin_pass has taken it
  std::array<OwnedEvent, 16> marks_;
  std::int64_t next_mark_ = 0;

  CudaSideStreams side_streams_{compute_.get()};
  HostSlots slot_memory_{[this](std::int64_t num_bytes) { return make_host_memory(num_bytes); }};
  SlotCopies slots_{side_streams_, slot_memory_};
  std::function<void(StreamKind)> queue_on_ = [this](StreamKind stream) {
    context_.stream = side_streams_.handle_of(stream);
  };
  Branches branches_{side_streams_, queue_on_};
  StartedExchanges exchanges_{side_streams_, queue_on_};

  mutable CudaLibrary library_{changes_};
  CudaContext context_;
  std::optional<GroupLinks> links_;
  // In device memory.
  StepScalars* scalars_ = nullptr;
  std::int64_t* num_fed_steps_ = nullptr;
  mutable std::unordered_map<Op, std::int64_t, OpHash> workspace_bytes_;
  std::unordered_map<Op, std::unique_ptr<Kernel>, OpHash> kernels_;
};

/// Throws DeviceError, a sentence that tells what to do, where the device cannot be used.
std::unique_ptr<CudaDevice> make_cuda_device(int index, const CudaOptions& options);

}  // namespace trainer::cuda
