#include "engine/report/trace/plan_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "engine/report/trace/memory_state.h"
#include "engine/report/trace/traced_step.h"

namespace trainer {
namespace {

constexpr int row_of_ops = 1;

class PlanEvents {
 public:
  PlanEvents(const TracedPlan& plan, int group, std::int64_t offset, TraceEventWriter& events)
      : plan_(plan),
        program_(plan.program),
        group_(group),
        offset_(offset),
        times_(times_of(plan.trace, plan.call_seconds)),
        events_(events) {}

  void write_names() {
    std::string name = fmt::format("plan of {}", plan_.findings.experiment_name);
    if (!plan_.findings.stage.empty()) name += fmt::format(", stage {}", plan_.findings.stage);
    if (plan_.findings.has_ranks()) name += fmt::format(", rank {}", plan_.rank);
    name += fmt::format(": {}, which holds the peak; times are predicted", traced_step_text(plan_.trace));
    if (!plan_.findings.plan.fits) name += "; does not fit, shown without a bound";
    events_.name_group(group_, name);
    events_.name_row({group_, row_of_ops}, "ops by phase and layer");
  }

  void write_ops() {
    const std::vector<MemoryAction>& actions = plan_.trace.actions;
    write_runs([](const OpCall& a, const OpCall& b) { return a.phase == b.phase; },
               [](const OpCall& call) { return std::string(name_of(call.phase)); });
    write_runs([](const OpCall& a, const OpCall& b) { return a.phase == b.phase && a.layer == b.layer; },
               [&](const OpCall& call) { return program_.layer_label(call.layer); });
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (actions[i].kind != MemoryAction::Kind::run) continue;
      const OpCall& call = program_.calls[actions[i].index];
      TraceArguments arguments;
      arguments.text("layer", program_.layer_label(call.layer));
      add_operands("reads", call.inputs, arguments);
      add_operands("writes", call.outputs, arguments);
      if (call.workspace >= 0) arguments.number("workspace bytes", program_.buffers[call.workspace].num_bytes);
      events_.slice({group_, row_of_ops}, name_of(call.op.kind), offset_ + times_.begin[i], offset_ + times_.end[i],
                    arguments);
    }
  }

  void write_counters() {
    write_capacity();
    MemoryState state;
    CategoryBytes by_category{};
    const auto add_to_category = [&](const MemoryAction& action, std::int64_t sign) {
      by_category[static_cast<std::size_t>(program_.buffers[action.index].category)] += sign * action.num_bytes;
    };
    for (const MemoryAction& action : plan_.trace.before) {
      state.take(action, 0);
      if (action.kind == MemoryAction::Kind::allocate) add_to_category(action, 1);
    }
    write_reserved(state, 0);
    write_allocated(state, by_category, 0);
    for (std::size_t i = 0; i < plan_.trace.actions.size(); ++i) {
      const MemoryAction& action = plan_.trace.actions[i];
      if (action.kind == MemoryAction::Kind::run) continue;
      state.take(action, 0);
      if (action.kind == MemoryAction::Kind::allocate || action.kind == MemoryAction::Kind::release) {
        add_to_category(action, action.kind == MemoryAction::Kind::allocate ? 1 : -1);
        write_allocated(state, by_category, times_.begin[i]);
      } else {
        write_reserved(state, times_.begin[i]);
      }
    }
  }

  void write_lives(std::int64_t most_buffers) {
    std::vector<Life> lives = find_lives();
    if (static_cast<std::int64_t>(lives.size()) > most_buffers) {
      std::stable_sort(lives.begin(), lives.end(),
                       [](const Life& a, const Life& b) { return a.num_bytes > b.num_bytes; });
      lives.resize(static_cast<std::size_t>(most_buffers));
    }
    std::sort(lives.begin(), lives.end(), [](const Life& a, const Life& b) { return a.first < b.first; });
    std::map<LayerId, std::vector<Lane>> layers;
    for (std::size_t i = 0; i < lives.size(); ++i) {
      std::vector<Lane>& lanes = layers[program_.buffers[lives[i].buffer].layer];
      const auto lane =
          std::find_if(lanes.begin(), lanes.end(), [&](const Lane& each) { return each.busy_until <= lives[i].first; });
      Lane& taken = lane == lanes.end() ? lanes.emplace_back() : *lane;
      taken.busy_until = lives[i].last;
      taken.lives.push_back(i);
    }
    for (const auto& [layer, lanes] : layers)
      for (std::size_t lane = 0; lane < lanes.size(); ++lane) write_lane(layer, lane, lanes[lane], lives);
  }

 private:
  /// Of a buffer: from one position in `before` and `actions` up to another.
  struct Life {
    BufferId buffer = -1;
    std::uint64_t address = 0;
    std::int64_t num_bytes = 0;
    std::size_t first = 0, last = 0;
    std::int64_t begin = 0, end = 0;
  };
  /// Lives of one layer that follow each other.
  struct Lane {
    std::size_t busy_until = 0;
    std::vector<std::size_t> lives{};
  };

  /// A slice for each stretch of ops that are alike.
  template <typename IsAlike, typename NameOf>
  void write_runs(IsAlike&& is_alike, NameOf&& name_of_call) {
    const OpCall* first = nullptr;
    std::int64_t begin = 0, end = 0;
    const auto write = [&] {
      if (first != nullptr) events_.slice({group_, row_of_ops}, name_of_call(*first), offset_ + begin, offset_ + end);
    };
    for (std::size_t i = 0; i < plan_.trace.actions.size(); ++i) {
      if (plan_.trace.actions[i].kind != MemoryAction::Kind::run) continue;
      const OpCall& call = program_.calls[plan_.trace.actions[i].index];
      if (first == nullptr || !is_alike(*first, call)) {
        write();
        first = &call;
        begin = times_.begin[i];
      }
      end = times_.end[i];
    }
    write();
  }

  void add_operands(std::string_view key, const std::vector<BufferId>& operands, TraceArguments& arguments) const {
    std::string names;
    for (const BufferId operand : operands) {
      if (operand < 0) continue;
      if (!names.empty()) names += ", ";
      names += program_.buffers[operand].name;
    }
    if (!names.empty()) arguments.text(key, names);
  }

  void write_capacity() {
    const TraceArguments capacity = TraceArguments().number("bytes", plan_.findings.capacity);
    events_.counter(group_, "capacity", offset_, capacity);
    events_.counter(group_, "capacity", offset_ + times_.whole, capacity);
  }

  void write_reserved(const MemoryState& state, std::int64_t time) {
    events_.counter(group_, "reserved", offset_ + time, TraceArguments().number("bytes", state.reserved()));
    const bool exceeds = !exceeded_ && !plan_.findings.plan.fits && state.reserved() > plan_.findings.capacity;
    if (!exceeds) return;
    exceeded_ = true;
    events_.instant({group_, row_of_ops}, "exceeds the capacity", offset_ + time,
                    TraceArguments().number("reserved", state.reserved()).number("capacity", plan_.findings.capacity));
  }

  void write_allocated(const MemoryState& state, const CategoryBytes& by_category, std::int64_t time) {
    events_.counter(group_, "allocated", offset_ + time, TraceArguments().number("bytes", state.allocated()));
    TraceArguments values;
    for (std::size_t i = 0; i < by_category.size(); ++i) {
      was_seen_[i] = was_seen_[i] || by_category[i] > 0;
      if (was_seen_[i]) values.number(category_names[i], by_category[i]);
    }
    events_.counter(group_, "allocated by category", offset_ + time, values);
  }

  std::vector<Life> find_lives() const {
    std::vector<Life> lives;
    std::vector<std::int64_t> open(program_.buffers.size(), -1);
    std::size_t position = 0;
    const auto take = [&](const MemoryAction& action, std::int64_t time) {
      ++position;
      if (action.kind == MemoryAction::Kind::allocate) {
        open[static_cast<std::size_t>(action.index)] = static_cast<std::int64_t>(lives.size());
        lives.push_back({action.index, action.address, action.num_bytes, position, position, time, time});
      } else if (action.kind == MemoryAction::Kind::release) {
        std::int64_t& life = open[static_cast<std::size_t>(action.index)];
        lives[static_cast<std::size_t>(life)].last = position;
        lives[static_cast<std::size_t>(life)].end = time;
        life = -1;
      }
    };
    for (const MemoryAction& action : plan_.trace.before) take(action, 0);
    for (std::size_t i = 0; i < plan_.trace.actions.size(); ++i) take(plan_.trace.actions[i], times_.begin[i]);
    for (const std::int64_t life : open) {
      if (life < 0) continue;
      lives[static_cast<std::size_t>(life)].last = position + 1;
      lives[static_cast<std::size_t>(life)].end = times_.whole;
    }
    return lives;
  }

  void write_lane(LayerId layer, std::size_t number, const Lane& lane, const std::vector<Life>& lives) {
    const std::string id = fmt::format("{}.{}", layer, number);
    const std::string label = layer == no_layer ? "no layer" : program_.layer_label(layer);
    events_.begin_span(group_, id, label, offset_ + lives[lane.lives.front()].begin);
    for (const std::size_t i : lane.lives) {
      const Life& life = lives[i];
      const Buffer& buffer = program_.buffers[life.buffer];
      events_.begin_span(group_, id, buffer.name, offset_ + life.begin,
                         TraceArguments()
                             .text("category", name_of(buffer.category))
                             .number("bytes", life.num_bytes)
                             .number("requested bytes", buffer.num_bytes)
                             .text("address", fmt::format("{:#x}", life.address)));
      events_.end_span(group_, id, buffer.name, offset_ + life.end);
    }
    events_.end_span(group_, id, label, offset_ + lives[lane.lives.back()].end);
  }

  const TracedPlan& plan_;
  const Program& program_;
  const int group_;
  const std::int64_t offset_;
  const StepTimes times_;
  TraceEventWriter& events_;
  std::array<bool, num_categories> was_seen_{};
  bool exceeded_ = false;
};

}  // namespace

void write_plan_events(const TracedPlan& plan, int group, std::int64_t offset, std::int64_t most_buffers,
                       TraceEventWriter& events) {
  PlanEvents written(plan, group, offset, events);
  written.write_names();
  written.write_ops();
  written.write_counters();
  written.write_lives(most_buffers);
}

}  // namespace trainer
