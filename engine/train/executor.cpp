#include "engine/train/executor.h"

#include <algorithm>
#include <array>
#include <set>

#include "datasets/batch_reader.h"
#include "engine/ops/op_definition.h"
#include "engine/program/held_parts.h"
#include "engine/program/part_sums.h"
#include "engine/train/branches.h"

namespace trainer {
Executor::Executor(const Program& program, Device& device, Allocator& allocator, ExecutorOptions options)
    : program_(program),
      device_(device),
      allocator_(allocator),
      options_(options),
      live_(program, allocator),
      places_(program) {
  kernels_.resize(program.calls.size(), nullptr);
  const std::vector<char> is_persistent = persistent_buffers(program);
  num_persistent_ = std::count(is_persistent.begin(), is_persistent.end(), 1);
  std::size_t longest = std::max(program.load.instructions.size(), program.update.instructions.size());
  for (const Program::MicroBatch& micro_batch : program.micro_batches) {
    longest = std::max(longest, micro_batch.first.instructions.size());
    further_.push_back(&micro_batch.next);
    for (const Routine& routine : micro_batch.others) further_.push_back(&routine);
  }
  for (const Routine* const routine : part_sum_routines(program)) further_.push_back(routine);
  std::size_t longest_pipeline = 0, most_fields = 0;
  if (program.pipeline) {
    for (const PipelineSteps::Step& step : program.pipeline->steps) {
      std::size_t length = 0;
      for (const PipelineSteps::Entry& entry : step.entries) {
        const Routine& routine = program.pipeline->routines[static_cast<std::size_t>(entry.routine)];
        length += routine.instructions.size();
        most_fields = std::max(most_fields, routine.fields.size());
      }
      longest_pipeline = std::max(longest_pipeline, length);
    }
  }
  for (const Routine* const routine : further_) longest = std::max(longest, routine->instructions.size());
  for (const Routine& routine : program.evaluations) longest = std::max(longest, routine.instructions.size());
  if (const auto& texts = program.generation)
    longest = std::max({longest, texts->prompt.instructions.size(), texts->token.instructions.size()});
  if (const auto& predictions = program.prediction)
    for (const PredictionRoutines::Batch& batch : predictions->batches)
      longest = std::max(longest, batch.predict.instructions.size());
  timeline_.reserve(3 * longest + longest_pipeline);
  for (const Program::MicroBatch& micro_batch : program.micro_batches)
    most_fields = std::max(most_fields, micro_batch.first.fields.size());
  transfers_.reserve(most_fields);
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
  other_peaks_ = {};
  if (live_.has_places())
    counters_are_old_ = true;  // it may not be walked at all
  else
    allocator_.reset_peaks();
}

void Executor::lay_out(std::span<const Routine* const> routines) {
  if (has_waiting_steps()) {
    const std::vector<const Routine*>& waiting = fed_.layouts[fed_.current].routines;
    if (!std::equal(routines.begin(), routines.end(), waiting.begin(), waiting.end())) start_fed();
  }
  layout_keeps_segments_ = true;
  const bool may_keep = live_.has_places() && num_live_ == num_persistent_;
  if (may_keep) {
    if (const Sequence* kept = find_kept(routines)) {
      laid_out_ = static_cast<std::size_t>(kept - sequences_.data());
      other_peaks_ = highest_of(other_peaks_, kept->memory);
      return;
    }
  }
  Sequence& sequence = begin_layout();
  const bool may_place = num_live_ == num_persistent_;
  const StepMemory memory_before = step_memory(allocator_.statistics());
  const std::int64_t highest_before = highest_allocated_;
  const CategoryBytes by_category_before = peak_by_category_;
  const std::size_t timeline_before = timeline_.size();
  const Counter before = allocator_.statistics().reserved_bytes.all;
  try {
    for (const Routine* routine : routines) lay_out(*routine, sequence);
  } catch (const ProgramOutOfMemory&) {
    const std::int64_t reserved = allocator_.statistics().reserved_bytes.all.peak;
    start_fed();
    refused_places_.reset();
    if (!may_place || !place_layouts(live_, allocator_, places_, refused_places_)) throw;
    first_placed_step_ = step_;
    highest_allocated_ = highest_before;
    peak_by_category_ = by_category_before;
    timeline_.resize(std::min(timeline_.size(), timeline_before));
    other_peaks_ = highest_of(other_peaks_, memory_before);
    other_peaks_.peak_reserved = std::max(other_peaks_.peak_reserved, reserved);
    counters_are_old_ = true;
    return lay_out(routines);
  }
  const Counter& now = allocator_.statistics().reserved_bytes.all;
  layout_keeps_segments_ = now.allocated == before.allocated && now.freed == before.freed;
  require_internal(!has_waiting_steps() || now.freed == before.freed, "no layout frees what waiting steps use");
  if (!may_keep || num_live_ != num_persistent_) return;
  sequence.memory = step_memory(allocator_.statistics());
  sequence.routines.assign(routines.begin(), routines.end());
}

/// An empty sequence, which is the one that is laid out from here on.
Executor::Sequence& Executor::begin_layout() {
  const bool replaces = !sequences_.empty() && sequences_.back().routines.empty();
  if (!replaces) sequences_.emplace_back();
  laid_out_ = sequences_.size() - 1;
  Sequence& sequence = sequences_.back();
  sequence.layouts.clear();
  sequence.operands.clear();
  sequence.fields.clear();
  if (live_.has_places()) count_peaks_anew();
  allocator_.begin_layout();
  return sequence;
}

/// The kept sequence of these routines; null where there is none.
Executor::Sequence* Executor::find_kept(std::span<const Routine* const> routines) {
  const auto found = std::find_if(sequences_.begin(), sequences_.end(), [&](const Sequence& sequence) {
    return std::equal(sequence.routines.begin(), sequence.routines.end(), routines.begin(), routines.end());
  });
  return found == sequences_.end() ? nullptr : &*found;
}

/// From here on the allocator's peaks are those of what is walked next.
void Executor::count_peaks_anew() {
  if (!counters_are_old_) other_peaks_ = highest_of(other_peaks_, step_memory(allocator_.statistics()));
  allocator_.reset_peaks();
  counters_are_old_ = false;
}

void Executor::lay_out(const Routine& routine, Sequence& sequence) {
  prepare(routine);
  start_timeline(routine);
  Layout layout{
      .routine = &routine, .operands_begin = sequence.operands.size(), .fields_begin = sequence.fields.size()};
  sequence.fields.resize(layout.fields_begin + routine.fields.size());
  std::size_t position = 0;
  try {
    for (; position < routine.instructions.size(); ++position) {
      const Instruction& instruction = routine.instructions[position];
      walk(instruction, sequence.operands);
      note(instruction);
      if (instruction.kind != Instruction::Kind::allocate) continue;
      for (std::size_t f = 0; f < routine.fields.size(); ++f)
        if (routine.fields[f] == instruction.index)
          sequence.fields[layout.fields_begin + f] = live_.address(instruction.index);
    }
  } catch (const OutOfMemory& error) {
    OutOfMemoryContext context = describe_out_of_memory(program_, live_, routine, position, error.failure(), step_);
    context.timeline.assign(timeline_.begin(), timeline_.end());
    sequence.layouts.clear();
    release_transient();
    throw ProgramOutOfMemory(std::move(context));
  }
  layout.operands_end = sequence.operands.size();
  sequence.layouts.push_back(layout);
}

void Executor::walk(const Instruction& instruction, std::vector<void*>& operands) {
  switch (instruction.kind) {
    case Instruction::Kind::allocate:
      allocate(instruction.index);
      break;
    case Instruction::Kind::run: {
      const OpCall& call = program_.calls[instruction.index];
      for (const BufferId input : call.inputs) operands.push_back(live_.address(input));
      for (const BufferId output : call.outputs) operands.push_back(live_.address(output));
      operands.push_back(call.workspace >= 0 ? live_.address(call.workspace) : nullptr);
      break;
    }
    case Instruction::Kind::release:
      release(instruction.index);
      break;
  }
}

void Executor::stage(const Routine& routine, const HostBatch& batch) {
  if (program_.staged_fields.empty()) return;
  transfers_.clear();
  for (std::size_t f = 0; f < routine.fields.size(); ++f)
    if (routine.fields[f] >= 0)
      transfers_.push_back(
          {live_.address(program_.staged_fields[f]), batch.fields[f], num_bytes_of(routine.fields[f])});
  device_.copy_ahead(transfers_);
  is_staged_ = true;
}

void Executor::begin_pass(const Sequence& sequence, const Layout& layout, const StepScalars& scalars,
                          const HostBatch* batch) {
  const Routine& routine = *layout.routine;
  const std::span<void* const> fields = fields_of(sequence, layout);
  transfers_.clear();
  if (is_staged_ && !fields.empty()) {
    for (std::size_t f = 0; f < fields.size(); ++f)
      if (routine.fields[f] >= 0)
        transfers_.push_back({fields[f], live_.address(program_.staged_fields[f]), num_bytes_of(routine.fields[f])});
    is_staged_ = false;
    return device_.begin_pass(scalars, transfers_);
  }
  device_.begin_pass(scalars, {});
  if (batch == nullptr) return;
  for (std::size_t f = 0; f < fields.size(); ++f)
    if (routine.fields[f] >= 0) device_.copy_to_device(fields[f], batch->fields[f], num_bytes_of(routine.fields[f]));
}

void Executor::queue(std::size_t first, std::size_t count, const StepScalars& scalars, const HostBatch* batch,
                     const std::function<void()>& on_copied) {
  require_internal(!sequences_.empty() && first + count <= sequences_[laid_out_].layouts.size(),
                   "routines are laid out before they are queued");
  start_fed();
  const Sequence& sequence = sequences_[laid_out_];
  const std::vector<Layout>& layouts = sequence.layouts;
  if (layouts[first].operands_begin == layouts[first + count - 1].operands_end) return;  // only allocations
  begin_pass(sequence, layouts[first], scalars, batch);
  if (on_copied && device_.copies_at_once()) on_copied();
  ++pass_counts_.total;
  if (!pass_counts_.can_replay || !pass_counts_.obstacle.empty()) return queue_calls(first, count, {});

  bool has_same_addresses = false;
  Pass& pass = find_pass(first, count, has_same_addresses);
  if (!has_same_addresses) {
    ++pass_counts_.moved;
    return queue_calls(first, count, {});
  }
  if (pass.parts.empty()) pass.parts = parts_of(first, count);
  bool is_replayed = true;
  for (PassPart& part : pass.parts) {
    if (part.is_recorded)
      is_replayed = replay(first, count, part) && is_replayed;
    else
      queue_calls(first, count, part);
  }
  if (is_replayed) ++pass_counts_.replayed;
}

std::vector<Executor::PassPart> Executor::parts_of(std::size_t first, std::size_t count) const {
  std::vector<PassPart> parts;
  std::size_t begin = 0, end = 0;
  // Slots whose copies begin or end here alone: what is recorded waits for all that it starts, and for nothing else.
  std::set<std::int32_t> lone_copies;
  const auto add_recorded = [&] {
    if (end > begin) parts.push_back({begin, end, /*is_recorded=*/lone_copies.empty()});
    lone_copies.clear();
  };
  for_every_call(first, count, {}, [&](std::int32_t index, const void* const*) {
    const Op& op = program_.calls[index].op;
    if (op.kind == OpKind::offload || op.kind == OpKind::fetch) {
      const auto& attributes = attributes_of<OffloadAttributes>(op);
      const bool has_begun = attributes.finish && lone_copies.erase(attributes.slot) > 0;
      if (!has_begun) lone_copies.insert(attributes.slot);
    }
    if (communicates(op)) {
      add_recorded();
      parts.push_back({end, end + 1, /*is_recorded=*/false});
      begin = end + 1;
    }
    ++end;
  });
  add_recorded();
  return parts;
}

/// Whether it was recorded; else its calls are queued one by one.
bool Executor::replay(std::size_t first, std::size_t count, PassPart& part) {
  if (!part.recording && pass_counts_.can_replay && pass_counts_.obstacle.empty()) {
    part.recording = record([&] { queue_branched_calls(first, count, part); }, pass_counts_.obstacle);
    if (!part.recording) pass_counts_.can_replay = !pass_counts_.obstacle.empty();
  }
  if (part.recording)
    part.recording->replay();
  else
    queue_calls(first, count, part);
  return part.recording != nullptr;
}

/// The pass of these routines, now with the addresses of the layout; `has_same_addresses` if it had them before.
Executor::Pass& Executor::find_pass(std::size_t first, std::size_t count, bool& has_same_addresses) {
  const std::vector<Layout>& layouts = sequences_[laid_out_].layouts;
  void* const* const all_operands = sequences_[laid_out_].operands.data();
  const std::span<void* const> operands(all_operands + layouts[first].operands_begin,
                                        all_operands + layouts[first + count - 1].operands_end);
  const auto is_same_pass = [&](const Pass& pass) {
    return pass.routines.size() == count &&
           std::equal(pass.routines.begin(), pass.routines.end(), layouts.begin() + static_cast<std::ptrdiff_t>(first),
                      [](const Routine* routine, const Layout& layout) { return routine == layout.routine; });
  };
  auto found = std::find_if(passes_.begin(), passes_.end(), is_same_pass);
  if (found == passes_.end()) {
    Pass& pass = passes_.emplace_back();
    for (std::size_t i = first; i < first + count; ++i) pass.routines.push_back(layouts[i].routine);
    found = passes_.end() - 1;
  }
  has_same_addresses = std::equal(found->operands.begin(), found->operands.end(), operands.begin(), operands.end());
  if (!has_same_addresses) {
    found->operands.assign(operands.begin(), operands.end());
    found->parts.clear();
  }
  return *found;
}

template <typename Function>
void Executor::for_every_call(std::size_t first, std::size_t count, const PassPart& part, Function visit) const {
  const Sequence& sequence = sequences_[laid_out_];
  std::size_t place = 0;
  for (std::size_t i = first; i < first + count; ++i) {
    const void* const* operands = sequence.operands.data() + sequence.layouts[i].operands_begin;
    for (const Instruction& instruction : sequence.layouts[i].routine->instructions) {
      if (instruction.kind != Instruction::Kind::run) continue;
      const OpCall& call = program_.calls[instruction.index];
      if (place >= part.begin && place < part.end) visit(instruction.index, operands);
      ++place;
      operands += call.inputs.size() + call.outputs.size() + 1;
    }
  }
}

void Executor::queue_calls(std::size_t first, std::size_t count, const PassPart& part) {
  for_every_call(first, count, part,
                 [&](std::int32_t index, const void* const* operands) { run_call(index, operands); });
}

/// Within a recording.
void Executor::queue_branched_calls(std::size_t first, std::size_t count, const PassPart& part) {
  num_recorded_branches_ = 0;
  if (!options_.branches || !device_.has_branches()) return queue_calls(first, count, part);
  std::vector<CallMemory> memory;
  for_every_call(first, count, part, [&](std::int32_t index, const void* const* operands) {
    memory.push_back(memory_of(program_.calls[index], operands, program_));
  });
  const std::vector<BranchedCall> branched = find_branches(memory);
  std::vector<std::int64_t> branches;  // as the device counts them, by call
  std::int64_t num_branches = 0, last_branch = 0;
  for_every_call(first, count, part, [&](std::int32_t index, const void* const* operands) {
    const auto& [is_branch, joins] = branched[branches.size()];
    if (joins >= 0) device_.join(branches[static_cast<std::size_t>(joins)]);
    branches.push_back(-1);
    if (!is_branch) return run_call(index, operands);
    branches.back() = last_branch = device_.branch([&] { run_call(index, operands); });
    ++num_branches;
  });
  // What follows may write where no call does: the next batch, the numbers of the next step.
  if (num_branches > 0) device_.join(last_branch);
  num_recorded_branches_ = num_branches;
}

std::unique_ptr<Recording> Executor::record(const std::function<void()>& queue, std::string& obstacle) {
  std::unique_ptr<Recording> recording = device_.record(queue, obstacle);
  if (recording) pass_counts_.branches = std::max(pass_counts_.branches, num_recorded_branches_);
  return recording;
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
  start_fed();
  if (observer == nullptr) {
    const std::array<const Routine*, 1> routines = {&routine};
    lay_out(routines);
    queue(0, 1, scalars, batch);
    return device_.synchronize();
  }
  // What the observer looks at must still be live, so each call is laid out directly before it runs.
  prepare(routine);
  start_timeline(routine);
  if (live_.has_places()) count_peaks_anew();
  device_.begin_pass(scalars, {});
  for (const Instruction& instruction : routine.instructions) {
    observed_operands_.clear();
    walk(instruction, observed_operands_);
    note(instruction);
    if (instruction.kind == Instruction::Kind::allocate && batch != nullptr) {
      const auto field = std::find(routine.fields.begin(), routine.fields.end(), instruction.index);
      if (field != routine.fields.end())
        device_.copy_to_device(live_.address(instruction.index), batch->fields[field - routine.fields.begin()],
                               num_bytes_of(instruction.index));
    }
    if (instruction.kind != Instruction::Kind::run) continue;
    observer->before_call(program_.calls[instruction.index]);
    run_call(instruction.index, observed_operands_.data());
    device_.synchronize();
    if (!observer->after_call(program_.calls[instruction.index], live_)) return;
  }
}

void Executor::allocate(std::int32_t buffer) {
  live_.allocate(buffer);
  ++num_live_;
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
  --num_live_;
}

void Executor::start_timeline(const Routine& routine) {
  // See Note [Timeline of accumulated steps].
  if (std::find(further_.begin(), further_.end(), &routine) != further_.end()) {
    if (further_begin_ > 0 && further_begin_ < timeline_.size()) timeline_.resize(further_begin_);
    further_begin_ = timeline_.size();
  } else if (timeline_.size() + routine.instructions.size() > timeline_.capacity()) {
    timeline_.clear();  // the batches of an evaluation replace one another
  }
}

void Executor::note(const Instruction& instruction) {
  if (timeline_.size() == timeline_.capacity()) return;
  timeline_.push_back(
      {instruction.phase, instruction.layer, allocator_.statistics().allocated_bytes.all.current, by_category_});
}

std::vector<BufferId> Executor::leftovers() const {
  std::vector<BufferId> buffers;
  for (BufferId buffer = 0; buffer < static_cast<BufferId>(program_.buffers.size()); ++buffer)
    if (!live_.is_persistent(buffer) && live_.is_live(buffer)) buffers.push_back(buffer);
  return buffers;
}

void Executor::release_transient() noexcept {
  for (BufferId buffer = 0; buffer < static_cast<BufferId>(program_.buffers.size()); ++buffer) {
    if (!live_.is_persistent(buffer) && live_.is_live(buffer)) release(buffer);
  }
}

void Executor::release_buffers() noexcept {
  device_.settle_exchanges();
  fed_ = {};
  live_.release_all();
  num_live_ = 0;
  sequences_.clear();
  by_category_ = {};
}

void Executor::release_all() noexcept {
  release_buffers();
  allocator_.release_cached();
}

void Executor::read(BufferId buffer, void* to) {
  read(buffer, 0, whole_type(program_.buffers[buffer]).num_bytes(), to);
}

void Executor::read(BufferId buffer, std::int64_t offset, std::int64_t num_bytes, void* to) {
  start_fed();
  if (const std::optional<TensorPart>& part = program_.buffers[buffer].part) {
    for (const HeldRange& held : held_of(*part, program_.ranks, offset, num_bytes))
      device_.copy_to_host(static_cast<std::byte*>(to) + (held.in_tensor - offset),
                           static_cast<const std::byte*>(live_.address(buffer)) + held.in_buffer, held.num_bytes);
    device_.synchronize();
    return;
  }
  device_.copy_to_host(to, static_cast<const std::byte*>(live_.address(buffer)) + offset, num_bytes);
  device_.synchronize();
}

void Executor::queue_read(BufferId buffer, void* to) {
  start_fed();
  device_.copy_to_host(to, live_.address(buffer), program_.buffers[buffer].num_bytes);
}

void Executor::write(BufferId buffer, const void* from) {
  write(buffer, 0, whole_type(program_.buffers[buffer]).num_bytes(), from);
}

void Executor::write(BufferId buffer, std::int64_t offset, std::int64_t num_bytes, const void* from) {
  start_fed();
  if (const std::optional<TensorPart>& part = program_.buffers[buffer].part) {
    for (const HeldRange& held : held_of(*part, program_.ranks, offset, num_bytes))
      device_.copy_to_device(static_cast<std::byte*>(live_.address(buffer)) + held.in_buffer,
                             static_cast<const std::byte*>(from) + (held.in_tensor - offset), held.num_bytes);
    device_.synchronize();
    return;
  }
  device_.copy_to_device(static_cast<std::byte*>(live_.address(buffer)) + offset, from, num_bytes);
  device_.synchronize();
}

void Executor::clear(BufferId buffer) {
  start_fed();
  if (program_.buffers[buffer].num_bytes == 0) return;  // an empty part
  device_.fill_zero(live_.address(buffer), program_.buffers[buffer].num_bytes);
}

StepMemory Executor::memory() const {
  StepMemory memory = step_memory(allocator_.statistics());
  if (counters_are_old_) {
    memory.peak_requested = memory.requested;
    memory.peak_allocated = memory.allocated;
    memory.peak_reserved = memory.reserved;
  }
  return highest_of(memory, other_peaks_);
}

const StepMemory& Executor::run_peak() const {
  run_peak_ = highest_of(run_peak_, memory());
  return run_peak_;
}

}  // namespace trainer
