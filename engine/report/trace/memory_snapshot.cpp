#include "engine/report/trace/memory_snapshot.h"

#include <fmt/format.h>

#include <map>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "engine/config/fields/enum_choices.h"
#include "engine/report/text/allocator_text.h"
#include "engine/report/trace/memory_state.h"
#include "engine/report/trace/pickle_writer.h"
#include "engine/report/trace/traced_step.h"

namespace trainer {
namespace {

std::string phase_text(Phase phase, const MemoryTrace& trace) {
  if (phase == Phase::load) return traced_step_text(trace);
  return fmt::format("{}, {}", name_of(phase), traced_step_text(trace));
}

/// Writes stacks, each frame and each stack once.
class FrameWriter {
 public:
  FrameWriter(PickleWriter& pickle, const TracedPlan& plan, const MemoryTrace& trace)
      : pickle_(pickle), program_(plan.program), config_path_(plan.findings.config_path), trace_(trace) {}

  /// Of a buffer that is allocated for a call in a phase; `call` -1: for none that is seen.
  PickleWriter::Shared write_stack(BufferId buffer, std::int32_t call, Phase phase) {
    const Buffer& held = program_.buffers[buffer];
    return write(fmt::format("{} ({})", held.name, name_of(held.category)), held.layer, call,
                 phase == Phase::load ? "held since loading" : phase_text(phase, trace_));
  }

  /// Of a segment that is acquired for a call.
  PickleWriter::Shared write_segment_stack(std::int32_t call, Phase phase) {
    const LayerId layer = call < 0 ? no_layer : program_.calls[call].layer;
    return write("segment", layer, call, phase_text(phase, trace_));
  }

  PickleWriter::Shared write_segment_before() {
    return write("segment", no_layer, -1, fmt::format("held before {}", traced_step_text(trace_)));
  }

 private:
  PickleWriter::Shared write(const std::string& what, LayerId layer, std::int32_t call, const std::string& phase) {
    const SourceLocation* place = layer == no_layer ? nullptr : &program_.layers[layer].location;
    const PickleWriter::Shared written = pickle_.begin_shared_list();
    write_frame(what, place);
    if (call >= 0) write_frame(std::string(name_of(program_.calls[call].op.kind)), place);
    if (place != nullptr) {
      write_frame(program_.layer_label(layer), place);
      for (const SourceLocation* used = place->used_at.get(); used != nullptr; used = used->used_at.get())
        write_frame("used here", used);
    }
    write_frame(phase, nullptr);
    pickle_.end_list();
    return written;
  }

  void write_frame(const std::string& name, const SourceLocation* place) {
    const bool is_known = place != nullptr && place->line > 0;
    const std::string& file = is_known ? place->file : config_path_;
    const int line = is_known ? place->line : 0;
    const auto [found, is_new] = frames_.try_emplace({name, file, line}, 0);
    if (!is_new) {
      pickle_.share(found->second);
      return;
    }
    found->second = pickle_.begin_shared_dict();
    pickle_.key("name");
    pickle_.text(name);
    pickle_.key("filename");
    pickle_.text(file);
    pickle_.key("line");
    pickle_.number(line);
    pickle_.end_dict();
  }

  PickleWriter& pickle_;
  const Program& program_;
  const std::string& config_path_;
  const MemoryTrace& trace_;
  std::map<std::tuple<std::string, std::string, int>, PickleWriter::Shared> frames_;
};

class SnapshotWriter {
 public:
  SnapshotWriter(const TracedPlan& plan, const ByteSink& sink)
      : plan_(plan),
        program_(plan.program),
        trace_(snapshot_trace(plan)),
        pickle_(sink),
        frames_(pickle_, plan, trace_),
        stacks_(trace_.before.size() + trace_.actions.size(), 0),
        allocated_at_(program_.buffers.size(), 0) {}

  void write(const std::string& trainer_version) {
    pickle_.begin_dict();
    pickle_.key("device_traces");
    pickle_.begin_list();
    write_entries();
    pickle_.end_list();
    pickle_.key("segments");
    write_segments();
    pickle_.key("allocator_settings");
    write_settings();
    pickle_.key("external_annotations");
    pickle_.begin_list();
    pickle_.end_list();
    pickle_.key("trainer");
    write_facts(trainer_version);
    pickle_.end_dict();
    pickle_.finish();
  }

 private:
  void text(std::string_view key, std::string_view value) {
    pickle_.key(key);
    pickle_.text(value);
  }
  void number(std::string_view key, std::int64_t value) {
    pickle_.key(key);
    pickle_.number(value);
  }

  void write_entries() {
    const StepTimes times = times_of(trace_, plan_.call_seconds);
    const std::vector<std::int32_t> served = served_calls(trace_, program_);
    pickle_.begin_list();
    for (std::size_t i = 0; i < trace_.before.size(); ++i) write_action(trace_.before[i], i, -1, 0);
    for (std::size_t i = 0; i < trace_.actions.size(); ++i)
      write_action(trace_.actions[i], trace_.before.size() + i, served[i], times.begin[i]);
    if (plan_.failure) write_failure(times.whole);
    begin_entry("snapshot", times.whole);
    number("addr", 0);
    number("size", state_.allocated());
    text("category", "unknown");
    pickle_.key("frames");
    pickle_.begin_list();
    pickle_.end_list();
    pickle_.end_dict();
    pickle_.end_list();
  }

  void write_action(const MemoryAction& action, std::size_t position, std::int32_t call, std::int64_t nanoseconds) {
    using Kind = MemoryAction::Kind;
    state_.take(action, position);
    switch (action.kind) {
      case Kind::run:
        return;
      case Kind::allocate:
        allocated_at_[static_cast<std::size_t>(action.index)] = position;
        begin_entry("alloc", nanoseconds);
        write_block(action, position, [&] { return frames_.write_stack(action.index, call, action.phase); });
        return;
      case Kind::release: {
        const std::size_t allocated_at = allocated_at_[static_cast<std::size_t>(action.index)];
        for (const char* const name : {"free_requested", "free_completed"}) {
          begin_entry(name, nanoseconds);
          write_block(action, allocated_at, [&] {
            pickle_.share(stacks_[allocated_at]);
            return stacks_[allocated_at];
          });
        }
        return;
      }
      case Kind::acquire:
        write_segment_entry("segment_alloc", action, position, call, nanoseconds);
        return;
      case Kind::map:
        write_segment_entry("segment_map", action, position, call, nanoseconds);
        return;
      case Kind::give_back:
        write_segment_entry("segment_free", action, position, call, nanoseconds);
        return;
      case Kind::unmap:
        write_segment_entry("segment_unmap", action, position, call, nanoseconds);
        return;
    }
  }

  void begin_entry(std::string_view action, std::int64_t nanoseconds) {
    constexpr std::int64_t of_a_microsecond = 1000;
    pickle_.begin_dict();
    text("action", action);
    number("stream", 0);
    number("time_us", nanoseconds / of_a_microsecond);
    write_pool("pool_id");
  }

  void write_pool(std::string_view key) {
    pickle_.key(key);
    pickle_.pair(0, 0);
  }

  template <typename WriteStack>
  void write_block(const MemoryAction& action, std::size_t allocated_at, WriteStack&& write_stack) {
    const Buffer& buffer = program_.buffers[action.index];
    number("addr", static_cast<std::int64_t>(action.address));
    number("size", action.num_bytes);
    number("requested_size", buffer.num_bytes);
    text("category", name_of(buffer.category));
    pickle_.key("frames");
    stacks_[allocated_at] = write_stack();
    pickle_.end_dict();
  }

  void write_segment_entry(std::string_view name, const MemoryAction& action, std::size_t position, std::int32_t call,
                           std::int64_t nanoseconds) {
    begin_entry(name, nanoseconds);
    number("addr", static_cast<std::int64_t>(action.address));
    number("size", action.num_bytes);
    pickle_.key("frames");
    const auto held = segment_stacks_.find(action.address);
    const bool begins = action.kind == MemoryAction::Kind::acquire || action.kind == MemoryAction::Kind::map;
    if (!begins && held != segment_stacks_.end())
      pickle_.share(held->second);
    else
      segment_stacks_[action.address] = position < trace_.before.size()
                                            ? frames_.write_segment_before()
                                            : frames_.write_segment_stack(call, phase_of(call));
    pickle_.end_dict();
  }

  Phase phase_of(std::int32_t call) const { return call < 0 ? Phase::load : program_.calls[call].phase; }

  void write_failure(std::int64_t nanoseconds) {
    const AllocationFailure& failure = plan_.findings.plan.failure->failure;
    begin_entry("oom", nanoseconds);
    number("size", failure.rounded);
    number("device_free", failure.capacity - state_.reserved());
    pickle_.key("frames");
    pickle_.begin_list();
    const OutOfMemoryContext& context = *plan_.findings.plan.failure;
    for (const std::string& name : {fmt::format("{} ({})", context.buffer, name_of(context.category)), context.op,
                                    context.layer, phase_text(context.phase, trace_)}) {
      if (name.empty()) continue;
      pickle_.begin_dict();
      text("name", name);
      text("filename", plan_.findings.config_path);
      number("line", 0);
      pickle_.end_dict();
    }
    pickle_.end_list();
    pickle_.end_dict();
  }

  void write_segments() {
    pickle_.begin_list();
    for (const MemoryState::Segment& segment : state_.segments()) {
      std::int64_t allocated = 0, requested = 0;
      for (const MemoryState::Piece& piece : segment.pieces) {
        if (piece.buffer < 0) continue;
        allocated += piece.num_bytes;
        requested += program_.buffers[piece.buffer].num_bytes;
      }
      pickle_.begin_dict();
      number("device", 0);
      number("address", static_cast<std::int64_t>(segment.address));
      number("total_size", segment.num_bytes);
      number("allocated_size", allocated);
      number("active_size", allocated);
      number("requested_size", requested);
      number("stream", 0);
      const bool is_small = segment.is_small && plan_.findings.allocator != AllocatorKind::planned;
      text("segment_type", is_small ? "small" : "large");
      write_pool("segment_pool_id");
      pickle_.key("is_expandable");
      pickle_.flag(segment.is_expandable);
      pickle_.key("frames");
      pickle_.share(segment_stacks_.at(segment.address));
      pickle_.key("blocks");
      write_blocks(segment);
      pickle_.end_dict();
    }
    pickle_.end_list();
  }

  void write_blocks(const MemoryState::Segment& segment) {
    pickle_.begin_list();
    for (const MemoryState::Piece& piece : segment.pieces) {
      pickle_.begin_dict();
      number("address", static_cast<std::int64_t>(piece.address));
      number("size", piece.num_bytes);
      number("requested_size", piece.buffer < 0 ? 0 : program_.buffers[piece.buffer].num_bytes);
      text("state", piece.buffer < 0 ? "inactive" : "active_allocated");
      pickle_.key("frames");
      if (piece.buffer >= 0) {
        pickle_.share(stacks_[piece.action]);
      } else {
        pickle_.begin_list();
        pickle_.end_list();
      }
      pickle_.end_dict();
    }
    pickle_.end_list();
  }

  void write_settings() {
    pickle_.begin_dict();
    text("PYTORCH_CUDA_ALLOC_CONF", "");
    number("max_split_size", -1);
    pickle_.key("garbage_collection_threshold");
    pickle_.real(0);
    pickle_.key("expandable_segments");
    pickle_.flag(is_expandable());
    pickle_.key("roundup_power2_divisions");
    pickle_.begin_dict();
    pickle_.end_dict();
    pickle_.end_dict();
  }

  bool is_expandable() const {
    for (const MemoryAction& action : trace_.before)
      if (action.kind == MemoryAction::Kind::map) return true;
    return false;
  }

  void write_facts(const std::string& trainer_version) {
    const PlanFindings& findings = plan_.findings;
    pickle_.begin_dict();
    text("version", trainer_version);
    text("name", findings.experiment_name);
    text("config", findings.config_path);
    text("stage", findings.stage);
    text("device", findings.device_name);
    text("allocator", allocator_name(findings.allocator));
    number("rank", plan_.rank);
    number("step", trace_.step);
    pickle_.key("evaluation");
    pickle_.flag(trace_.evaluation);
    pickle_.key("fits");
    pickle_.flag(findings.plan.fits);
    number("capacity", findings.capacity);
    number("peak_requested", findings.shown().peak_requested);
    number("peak_allocated", findings.shown().peak_allocated);
    number("peak_reserved", findings.shown().peak_reserved);
    pickle_.end_dict();
  }

  const TracedPlan& plan_;
  const Program& program_;
  const MemoryTrace& trace_;
  PickleWriter pickle_;
  FrameWriter frames_;
  MemoryState state_;
  std::vector<PickleWriter::Shared> stacks_;                                ///< by position of an allocate
  std::vector<std::size_t> allocated_at_;                                   ///< by buffer
  std::unordered_map<std::uint64_t, PickleWriter::Shared> segment_stacks_;  ///< by address
};

}  // namespace

const MemoryTrace& snapshot_trace(const TracedPlan& plan) { return plan.failure ? *plan.failure : plan.trace; }

void write_memory_snapshot(const TracedPlan& plan, const std::string& trainer_version, const ByteSink& sink) {
  SnapshotWriter(plan, sink).write(trainer_version);
}

}  // namespace trainer
