#include "engine/train/executor.h"

#include <algorithm>

#include "datasets/batch_reader.h"

namespace trainer {

Executor::Executor(const Program& program, Device& device, Allocator& allocator)
    : program_(program), device_(device), allocator_(allocator), live_(program, allocator) {
  kernels_.resize(program.calls.size(), nullptr);
  std::size_t most_operands = 0;
  for (const OpCall& call : program.calls) {
    most_operands = std::max(most_operands, call.inputs.size() + call.outputs.size());
  }
  operands_.resize(most_operands, nullptr);
  is_persistent_.resize(program.buffers.size(), 0);
  for (const Instruction& instruction : program.load.instructions) {
    if (instruction.kind == Instruction::Kind::allocate) is_persistent_[instruction.index] = 1;
  }
  std::size_t longest = std::max(program.load.instructions.size(), program.update.instructions.size());
  for (const Program::MicroBatch& micro_batch : program.micro_batches) {
    longest = std::max({longest, micro_batch.first.instructions.size(), micro_batch.next.instructions.size()});
  }
  for (const Routine& routine : program.evaluations) longest = std::max(longest, routine.instructions.size());
  timeline_.reserve(3 * longest);
}

void Executor::prepare(const Routine& routine) {
  for (const Instruction& instruction : routine.instructions) {
    if (instruction.kind != Instruction::Kind::run) continue;
    Kernel*& kernel = kernels_[instruction.index];
    if (kernel == nullptr) kernel = &device_.prepare(program_.calls[instruction.index].op);
  }
}

void Executor::begin_step(std::int64_t step) {
  run_peak();
  step_ = step;
  timeline_.clear();
  further_begin_ = 0;
  allocator_.reset_peaks();
}

void Executor::run(const Routine& routine, const StepScalars& scalars, const HostBatch* batch, CallObserver* observer) {
  prepare(routine);
  start_timeline(routine);
  device_.begin_pass(scalars, {});
  num_calls_completed_ = 0;
  std::size_t position = 0;
  try {
    for (; position < routine.instructions.size(); ++position) {
      const Instruction& instruction = routine.instructions[position];
      switch (instruction.kind) {
        case Instruction::Kind::allocate:
          allocate(routine, instruction.index, batch);
          break;
        case Instruction::Kind::run:
          run_call(instruction.index);
          ++num_calls_completed_;
          break;
        case Instruction::Kind::release:
          release(instruction.index);
          break;
      }
      note(instruction);
      if (observer != nullptr && instruction.kind == Instruction::Kind::run) {
        device_.synchronize();
        if (!observer->after_call(program_.calls[instruction.index], live_)) return;
      }
    }
  } catch (const OutOfMemory& error) {
    OutOfMemoryContext context = describe_out_of_memory(program_, live_, routine, position, error.failure(), step_);
    context.timeline.assign(timeline_.begin(), timeline_.end());
    release_transient();
    throw ProgramOutOfMemory(std::move(context));
  }
}

void Executor::allocate(const Routine& routine, std::int32_t buffer, const HostBatch* batch) {
  live_.allocate(buffer);
  const Buffer& allocated = program_.buffers[buffer];
  by_category_[static_cast<std::size_t>(allocated.category)] += live_.block(buffer).size;
  const std::int64_t total = allocator_.statistics().allocated_bytes.all.current;
  if (total > highest_allocated_) {
    highest_allocated_ = total;
    peak_by_category_ = by_category_;
  }
  if (batch == nullptr) return;
  if (buffer == routine.batch) {
    device_.copy_to_device(live_.address(buffer), batch->samples, allocated.num_bytes);
  } else if (buffer == routine.targets) {
    device_.copy_to_device(live_.address(buffer), batch->targets, allocated.num_bytes);
  }
}

void Executor::release(std::int32_t buffer) noexcept {
  by_category_[static_cast<std::size_t>(program_.buffers[buffer].category)] -= live_.block(buffer).size;
  live_.release(buffer);
}

void Executor::run_call(std::int32_t index) {
  const OpCall& call = program_.calls[index];
  std::size_t count = 0;
  for (const BufferId input : call.inputs) operands_[count++] = live_.address(input);
  for (const BufferId output : call.outputs) operands_[count++] = live_.address(output);
  const std::span<void* const> operands(operands_.data(), count);
  kernels_[index]->run({.inputs = operands.first(call.inputs.size()),
                        .outputs = operands.subspan(call.inputs.size()),
                        .workspace = call.workspace >= 0 ? live_.address(call.workspace) : nullptr});
}

void Executor::start_timeline(const Routine& routine) {
  // See Note [Timeline of accumulated steps].
  const auto is_further = [&](const Program::MicroBatch& micro_batch) { return &micro_batch.next == &routine; };
  if (std::any_of(program_.micro_batches.begin(), program_.micro_batches.end(), is_further)) {
    if (further_begin_ > 0) timeline_.resize(further_begin_);
    further_begin_ = timeline_.size();
  } else if (timeline_.size() + routine.instructions.size() > timeline_.capacity()) {
    timeline_.clear();  // the batches of an evaluation replace one another
  }
}

void Executor::note(const Instruction& instruction) {
  if (timeline_.size() == timeline_.capacity()) return;
  timeline_.push_back({instruction.phase, instruction.layer, allocator_.statistics().allocated_bytes.all.current});
}

void Executor::release_transient() noexcept {
  for (BufferId buffer = 0; buffer < static_cast<BufferId>(is_persistent_.size()); ++buffer) {
    if (is_persistent_[buffer] == 0 && live_.is_live(buffer)) release(buffer);
  }
}

void Executor::release_all() noexcept {
  live_.release_all();
  by_category_ = {};
  allocator_.release_cached();
}

void Executor::read(BufferId buffer, void* to) {
  queue_read(buffer, to);
  device_.synchronize();
}

void Executor::queue_read(BufferId buffer, void* to) {
  device_.copy_to_host(to, live_.address(buffer), program_.buffers[buffer].num_bytes);
}

void Executor::write(BufferId buffer, const void* from) {
  device_.copy_to_device(live_.address(buffer), from, program_.buffers[buffer].num_bytes);
  device_.synchronize();
}

void Executor::clear(BufferId buffer) { device_.fill_zero(live_.address(buffer), program_.buffers[buffer].num_bytes); }

StepMemory Executor::memory() const { return step_memory(allocator_.statistics()); }

const StepMemory& Executor::run_peak() const {
  const StepMemory now = memory();
  run_peak_.peak_requested = std::max(run_peak_.peak_requested, now.peak_requested);
  run_peak_.peak_allocated = std::max(run_peak_.peak_allocated, now.peak_allocated);
  run_peak_.peak_reserved = std::max(run_peak_.peak_reserved, now.peak_reserved);
  return run_peak_;
}

}  // namespace trainer
