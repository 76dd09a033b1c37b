#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "engine/device/device.h"
#include "engine/memory/allocator.h"

namespace trainer {

/// What a device has less than it says, and what is held of it.
struct ShortMemory {
  std::int64_t real_capacity = std::int64_t{1} << 60;  ///< may change while a run goes on
  std::int64_t held = 0;
  bool was_refused = false;
};

/// A source of less than it says, whose holdings can be asked for while the run that owns it goes on.
class ShortSource final : public MemorySource {
 public:
  ShortSource(std::unique_ptr<MemorySource> inner, ShortMemory& memory) : inner_(std::move(inner)), memory_(memory) {}
  void* acquire(std::int64_t num_bytes) override {
    void* address = inner_->held() + num_bytes > memory_.real_capacity ? nullptr : inner_->acquire(num_bytes);
    if (address != nullptr) memory_.held += num_bytes;
    memory_.was_refused = memory_.was_refused || address == nullptr;
    return address;
  }
  void release(void* address, std::int64_t num_bytes) noexcept override {
    inner_->release(address, num_bytes);
    memory_.held -= num_bytes;
  }
  std::int64_t capacity() const override { return inner_->capacity(); }
  void set_capacity(std::int64_t num_bytes) override { inner_->set_capacity(num_bytes); }
  std::int64_t held() const override { return inner_->held(); }

 private:
  std::unique_ptr<MemorySource> inner_;
  ShortMemory& memory_;
};

/// A device that has less memory than it says, or that lets the training loop run ahead of it.
class WrappedDevice final : public Device {
 public:
  explicit WrappedDevice(std::unique_ptr<Device> inner) : inner_(std::move(inner)) {}

  ShortMemory memory;
  bool tells_what_is_left = false;        ///< from the first refusal on, as if others had come before
  bool is_asynchronous = false;           ///< programs have staging buffers, and steps are queued ahead
  bool records = false;                   ///< steps are recorded, fed and marked as the inner device does it
  std::int64_t num_branches = 0;          ///< that were recorded
  std::int64_t num_marks = 0;             ///< that were set on a device that records
  std::int64_t num_prepared = 0;          ///< kernels that were asked for
  bool host_is_full = false;              ///< the next copy to the host finds no memory there
  std::int64_t num_synchronizations = 0;  ///< how often the host waited for everything
  const MemorySource* source = nullptr;   ///< the last one made
  std::vector<std::string> told_notes;

  std::string kind() const override { return inner_->kind(); }
  std::string name() const override { return inner_->name(); }
  std::int64_t workspace_bytes(const Op& op) const override { return inner_->workspace_bytes(op); }
  bool copies_ahead() const override { return is_asynchronous || records; }
  bool runs_ahead() const override { return is_asynchronous || records; }
  LinearFusions linear_fusions() const override { return inner_->linear_fusions(); }
  bool convolution_statistics(const Op& op) const override { return inner_->convolution_statistics(op); }
  std::int64_t set_mark() override {
    if (!records) return 0;
    ++num_marks;
    return inner_->set_mark();
  }
  void wait_for(std::int64_t mark) override {
    if (records) inner_->wait_for(mark);
  }
  std::unique_ptr<Recording> record(const std::function<void()>& queue, std::string& obstacle) override {
    return records ? inner_->record(queue, obstacle) : nullptr;
  }
  bool has_branches() const override { return inner_->has_branches(); }
  std::int64_t branch(const std::function<void()>& queue) override {
    ++num_branches;
    return inner_->branch(queue);
  }
  void join(std::int64_t branch) override { inner_->join(branch); }
  std::unique_ptr<StepFeed> make_step_feed(const StepFeedShape& shape) override {
    return records ? inner_->make_step_feed(shape) : nullptr;
  }
  Kernel& prepare(const Op& op) override {
    ++num_prepared;
    return inner_->prepare(op);
  }
  void drop_updates() override { inner_->drop_updates(); }
  void set_communicator(Communicator& communicator) override { inner_->set_communicator(communicator); }
  std::unique_ptr<MemorySource> make_memory_source(std::int64_t capacity) override {
    auto made = std::make_unique<ShortSource>(inner_->make_memory_source(capacity), memory);
    source = made.get();
    return made;
  }
  std::int64_t available_bytes() const override {
    const bool tells = tells_what_is_left && memory.was_refused;
    return tells ? std::max<std::int64_t>(memory.real_capacity - memory.held, 0) : inner_->available_bytes();
  }
  std::int64_t used_bytes() const override { return inner_->used_bytes(); }
  std::vector<std::string> notes() const override { return told_notes; }
  std::int64_t total_bytes() const override { return inner_->total_bytes(); }
  std::vector<NamedBytes> outside_allocator() const override { return inner_->outside_allocator(); }
  std::unique_ptr<HostMemory> make_host_memory(std::int64_t num_bytes) override {
    return inner_->make_host_memory(num_bytes);
  }
  void begin_pass(const StepScalars& scalars, std::span<const Transfer> staged) override {
    inner_->begin_pass(scalars, staged);
  }
  void copy_ahead(std::span<const Transfer> transfers) override { inner_->copy_ahead(transfers); }
  void finish_copy_ahead() override { inner_->finish_copy_ahead(); }
  void copy_to_device(void* destination, const void* from, std::int64_t num_bytes) override {
    inner_->copy_to_device(destination, from, num_bytes);
  }
  void copy_to_host(void* destination, const void* from, std::int64_t num_bytes) override {
    if (std::exchange(host_is_full, false)) throw std::bad_alloc();
    inner_->copy_to_host(destination, from, num_bytes);
  }
  void fill_zero(void* destination, std::int64_t num_bytes) override { inner_->fill_zero(destination, num_bytes); }
  void synchronize() override {
    ++num_synchronizations;
    inner_->synchronize();
  }

 private:
  std::unique_ptr<Device> inner_;
};

}  // namespace trainer
