#include "engine/train/executor.h"

#include <algorithm>
#include <array>

#include "datasets/batch_reader.h"

namespace trainer {

Executor::Executor(const Program& program, Device& device, Allocator& allocator, ExecutorOptions options)
    : program_(program), device_(device), allocator_(allocator), options_(options), live_(program, allocator) {
  kernels_.resize(program.calls.size(), nullptr);
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
  pass_counts_.can_replay = device.runs_ahead();
  if (!options.replays) pass_counts_.obstacle = "device.cuda_graph=false";
  if (options.synchronous) pass_counts_.obstacle = "--debug-sync";
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

void Executor::lay_out(std::span<const Routine* const> routines) {
  layouts_.clear();
  operands_.clear();
  for (const Routine* routine : routines) lay_out(*routine);
}

void Executor::lay_out(const Routine& routine) {
  prepare(routine);
  start_timeline(routine);
  Layout layout{.routine = &routine, .operands_begin = operands_.size()};
  std::size_t position = 0;
  try {
    for (; position < routine.instructions.size(); ++position) {
      const Instruction& instruction = routine.instructions[position];
      walk(instruction);
      note(instruction);
      if (instruction.kind != Instruction::Kind::allocate) continue;
      if (instruction.index == routine.batch) layout.batch = live_.address(instruction.index);
      if (instruction.index == routine.targets) layout.targets = live_.address(instruction.index);
    }
  } catch (const OutOfMemory& error) {
    OutOfMemoryContext context = describe_out_of_memory(program_, live_, routine, position, error.failure(), step_);
    context.timeline.assign(timeline_.begin(), timeline_.end());
    layouts_.clear();
    release_transient();
    throw ProgramOutOfMemory(std::move(context));
  }
  layout.operands_end = operands_.size();
  layouts_.push_back(layout);
}

void Executor::walk(const Instruction& instruction) {
  switch (instruction.kind) {
    case Instruction::Kind::allocate:
      allocate(instruction.index);
      break;
    case Instruction::Kind::run: {
      const OpCall& call = program_.calls[instruction.index];
      for (const BufferId input : call.inputs) operands_.push_back(live_.address(input));
      for (const BufferId output : call.outputs) operands_.push_back(live_.address(output));
      operands_.push_back(call.workspace >= 0 ? live_.address(call.workspace) : nullptr);
      break;
    }
    case Instruction::Kind::release:
      release(instruction.index);
      break;
  }
}

void Executor::stage(const Routine& routine, const HostBatch& batch) {
  if (program_.staged_batch < 0) return;
  const std::array<Transfer, 2> transfers = {
      {{live_.address(program_.staged_batch), batch.samples, program_.buffers[routine.batch].num_bytes},
       {live_.address(program_.staged_targets), batch.targets, program_.buffers[routine.targets].num_bytes}}};
  device_.copy_ahead(transfers);
  is_staged_ = true;
}

void Executor::begin_pass(const Layout& layout, const StepScalars& scalars, const HostBatch* batch) {
  const Routine& routine = *layout.routine;
  if (routine.batch < 0 || (!is_staged_ && batch == nullptr)) return device_.begin_pass(scalars, {});
  const std::int64_t batch_bytes = program_.buffers[routine.batch].num_bytes;
  const std::int64_t target_bytes = program_.buffers[routine.targets].num_bytes;
  if (is_staged_) {
    const std::array<Transfer, 2> transfers = {
        {{layout.batch, live_.address(program_.staged_batch), batch_bytes},
         {layout.targets, live_.address(program_.staged_targets), target_bytes}}};
    device_.begin_pass(scalars, transfers);
    is_staged_ = false;
  } else {
    device_.begin_pass(scalars, {});
    device_.copy_to_device(layout.batch, batch->samples, batch_bytes);
    device_.copy_to_device(layout.targets, batch->targets, target_bytes);
  }
}

void Executor::queue(std::size_t first, std::size_t count, const StepScalars& scalars, const HostBatch* batch) {
  require_internal(first + count <= layouts_.size(), "routines are laid out before they are queued");
  if (layouts_[first].operands_begin == layouts_[first + count - 1].operands_end) return;  // only allocations
  begin_pass(layouts_[first], scalars, batch);
  ++pass_counts_.total;
  if (!pass_counts_.can_replay || !pass_counts_.obstacle.empty()) return queue_calls(first, count);

  bool has_same_addresses = false;
  Pass& pass = find_pass(first, count, has_same_addresses);
  if (!has_same_addresses) {
    ++pass_counts_.moved;
    return queue_calls(first, count);
  }
  if (!pass.recording) {
    pass.recording = device_.record([&] { queue_calls(first, count); }, pass_counts_.obstacle);
    if (!pass.recording) {
      pass_counts_.can_replay = !pass_counts_.obstacle.empty();
      return queue_calls(first, count);
    }
  }
  pass.recording->replay();
  ++pass_counts_.replayed;
}

/// The pass of these routines, now with the addresses of the layout; `has_same_addresses` if it had them before.
Executor::Pass& Executor::find_pass(std::size_t first, std::size_t count, bool& has_same_addresses) {
  const std::span<void* const> operands(operands_.data() + layouts_[first].operands_begin,
                                        operands_.data() + layouts_[first + count - 1].operands_end);
  const auto is_same_pass = [&](const Pass& pass) {
    return pass.routines.size() == count &&
           std::equal(pass.routines.begin(), pass.routines.end(), layouts_.begin() + static_cast<std::ptrdiff_t>(first),
                      [](const Routine* routine, const Layout& layout) { return routine == layout.routine; });
  };
  auto found = std::find_if(passes_.begin(), passes_.end(), is_same_pass);
  if (found == passes_.end()) {
    Pass& pass = passes_.emplace_back();
    for (std::size_t i = first; i < first + count; ++i) pass.routines.push_back(layouts_[i].routine);
    found = passes_.end() - 1;
  }
  has_same_addresses = std::equal(found->operands.begin(), found->operands.end(), operands.begin(), operands.end());
  if (!has_same_addresses) {
    found->operands.assign(operands.begin(), operands.end());
    found->recording.reset();
  }
  return *found;
}

void Executor::queue_calls(std::size_t first, std::size_t count) {
  for (std::size_t i = first; i < first + count; ++i) {
    const void* const* operands = operands_.data() + layouts_[i].operands_begin;
    for (const Instruction& instruction : layouts_[i].routine->instructions) {
      if (instruction.kind != Instruction::Kind::run) continue;
      const OpCall& call = program_.calls[instruction.index];
      run_call(instruction.index, operands);
      operands += call.inputs.size() + call.outputs.size() + 1;
    }
  }
}

void Executor::run_call(std::int32_t index, const void* const* operands) {
  const OpCall& call = program_.calls[index];
  const std::span<void* const> all(const_cast<void* const*>(operands), call.inputs.size() + call.outputs.size() + 1);
  const OperandAddresses addresses{.inputs = all.first(call.inputs.size()),
                                   .outputs = all.subspan(call.inputs.size(), call.outputs.size()),
                                   .workspace = all.back()};
  device_.push_range(call.layer == no_layer ? "optimizer" : program_.layers[call.layer].path.c_str());
  if (!options_.synchronous) {
    kernels_[index]->run(addresses);
  } else {
    try {
      kernels_[index]->run(addresses);
      device_.synchronize();
    } catch (const DeviceError& error) {
      throw DeviceError(std::string(name_of(call.op.kind)) + " of " + program_.layer_label(call.layer) + " (" +
                        std::string(name_of(call.phase)) + "): " + error.what());
    }
  }
  device_.pop_range();
}

void Executor::run(const Routine& routine, const StepScalars& scalars, const HostBatch* batch, CallObserver* observer) {
  if (observer == nullptr) {
    const std::array<const Routine*, 1> routines = {&routine};
    lay_out(routines);
    queue(0, 1, scalars, batch);
    return device_.synchronize();
  }
  // What the observer looks at must still be live, so each call is laid out directly before it runs.
  prepare(routine);
  start_timeline(routine);
  device_.begin_pass(scalars, {});
  for (const Instruction& instruction : routine.instructions) {
    operands_.clear();
    walk(instruction);
    note(instruction);
    if (instruction.kind == Instruction::Kind::allocate && batch != nullptr) {
      const std::int64_t num_bytes = program_.buffers[instruction.index].num_bytes;
      void* const address = live_.address(instruction.index);
      if (instruction.index == routine.batch) device_.copy_to_device(address, batch->samples, num_bytes);
      if (instruction.index == routine.targets) device_.copy_to_device(address, batch->targets, num_bytes);
    }
    if (instruction.kind != Instruction::Kind::run) continue;
    run_call(instruction.index, operands_.data());
    device_.synchronize();
    if (!observer->after_call(program_.calls[instruction.index], live_)) return;
  }
}

void Executor::allocate(std::int32_t buffer) {
  live_.allocate(buffer);
  by_category_[static_cast<std::size_t>(program_.buffers[buffer].category)] += live_.block(buffer).size;
  const std::int64_t total = allocator_.statistics().allocated_bytes.all.current;
  if (total > highest_allocated_) {
    highest_allocated_ = total;
    peak_by_category_ = by_category_;
  }
}

void Executor::release(std::int32_t buffer) noexcept {
  by_category_[static_cast<std::size_t>(program_.buffers[buffer].category)] -= live_.block(buffer).size;
  live_.release(buffer);
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
