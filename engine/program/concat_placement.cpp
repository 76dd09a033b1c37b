#include "engine/program/concat_placement.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "engine/ops/op_definition.h"
#include "engine/program/value_uses.h"

namespace trainer {
namespace {

/// One input of a concatenation.
struct ConcatPart {
  ValueId value = -1;
  std::int64_t first = 0;  ///< of its channels in the whole
  std::int64_t num_bytes = 0;
  std::int32_t maker = -1;  ///< the node that could place it; -1: it has to be copied
  /// The first node behind the concatenation that reads it too, and before which its maker would run again; -1: none.
  std::int32_t again_at = -1;
};

class ConcatPlacement {
 public:
  explicit ConcatPlacement(Graph& graph) : graph_(graph), uses_(graph) { find_lifetimes(); }

  void run() {
    const auto num_nodes = static_cast<std::int32_t>(graph_.nodes.size());
    copies_.resize(graph_.nodes.size());
    again_.resize(graph_.nodes.size());
    std::vector<bool> is_replaced(graph_.nodes.size(), false);
    for (std::int32_t n = 0; n < num_nodes; ++n)
      if (graph_.nodes[n].op.kind == OpKind::concat) is_replaced[n] = place(n);
    std::vector<GraphNode> kept;
    kept.reserve(graph_.nodes.size());
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      for (GraphNode& again : again_[n]) kept.push_back(std::move(again));
      if (!is_replaced[n]) kept.push_back(std::move(graph_.nodes[n]));
      for (GraphNode& copy : copies_[n]) kept.push_back(std::move(copy));
    }
    graph_.nodes = std::move(kept);
  }

 private:
  /// A further value of that kind, for later readers.
  ValueId add_value(const Value& value) {
    graph_.values.push_back(value);
    readers_.emplace_back();
    last_read_.push_back(-1);
    return static_cast<ValueId>(graph_.values.size() - 1);
  }

  ValueId root(ValueId value) const {
    while (graph_.values[value].view_of >= 0) value = graph_.values[value].view_of;
    return value;
  }

  /// By value, its readers and the last of them; by node, the bytes of what is there while it runs: made by then, and
  /// read by it or later.
  void find_lifetimes() {
    const std::size_t num_nodes = graph_.nodes.size();
    std::vector<std::int32_t> made(graph_.values.size(), -1);
    readers_.resize(graph_.values.size());
    last_read_.assign(graph_.values.size(), -1);
    for (std::int32_t n = 0; n < static_cast<std::int32_t>(num_nodes); ++n) {
      for (const ValueId input : graph_.nodes[n].inputs) {
        readers_[input].push_back(n);
        last_read_[root(input)] = n;
      }
      for (const ValueId output : graph_.nodes[n].outputs) made[output] = n;
    }
    live_bytes_.assign(num_nodes + 1, 0);
    for (std::size_t v = 0; v < made.size(); ++v) {
      if (made[v] < 0) continue;
      const std::int64_t num_bytes = graph_.values[v].type.num_bytes();
      live_bytes_[static_cast<std::size_t>(made[v])] += num_bytes;
      live_bytes_[static_cast<std::size_t>(std::max(made[v], last_read_[v])) + 1] -= num_bytes;
    }
    for (std::size_t n = 1; n < live_bytes_.size(); ++n) live_bytes_[n] += live_bytes_[n - 1];
  }

  std::vector<ConcatPart> parts_of(std::int32_t n) const {
    const GraphNode& concat = graph_.nodes[n];
    std::vector<ConcatPart> parts;
    std::int64_t first = 0;
    for (const ValueId input : concat.inputs) {
      const TensorType& type = graph_.values[input].type;
      ConcatPart part{.value = input, .first = first, .num_bytes = type.num_bytes()};
      if (const std::int32_t maker = maker_of(input, concat.phase); maker >= 0) {
        const bool is_shared = uses_.num_uses[input] > 1;
        if (is_shared) part.again_at = next_reader(input, n, maker);
        if (!is_shared || part.again_at >= 0) part.maker = maker;
      }
      parts.push_back(part);
      first += type.shape[-1];
    }
    return parts;
  }

  /// The node whose first output alone is `value`, where it may be placed.
  std::int32_t maker_of(ValueId value, Phase phase) const {
    const bool is_further = static_cast<std::size_t>(value) >= uses_.producer.size();
    const std::int32_t maker = is_further ? -1 : uses_.producer[value];
    if (maker < 0 || graph_.values[value].category == Category::input) return -1;
    const GraphNode& node = graph_.nodes[maker];
    const bool can_be_placed = definition_of(node.op.kind).can_be_placed && node.op.placed_at < 0 &&
                               node.outputs[0] == value && node.op.outputs[0] == node.op.inputs[0];
    return can_be_placed && node.phase == phase ? maker : -1;
  }

  /// The first of those that read `value` behind the concatenation n, before which `maker` would run again; -1: it may
  /// not. Only what is run again already, for such an op changes no state.
  std::int32_t next_reader(ValueId value, std::int32_t n, std::int32_t maker) const {
    const GraphNode& node = graph_.nodes[maker];
    const std::vector<std::int32_t>& readers = readers_[value];
    if (node.phase != Phase::recompute || node.outputs.size() != 1) return -1;
    if (static_cast<std::size_t>(uses_.num_uses[value]) != readers.size()) return -1;  // a view reads it
    if (readers[0] != n || readers[1] == n) return -1;
    const OpDefinition& definition = definition_of(node.op.kind);
    if (definition.is_slow != nullptr && definition.is_slow(node.op)) return -1;
    std::int64_t read_bytes = 0;
    for (const ValueId input : node.inputs) {
      const ValueId held = root(input);
      const TensorType& type = graph_.values[input].type;
      if (type.shape.rank() > 1) read_bytes += type.num_bytes();  // others are numbers of the channels
      if (graph_.values[held].parameter < 0 && last_read_[held] < readers[1]) return -1;
    }
    return read_bytes <= graph_.values[value].type.num_bytes() ? readers[1] : -1;
  }

  /// Runs the maker of a part that is placed once more, for those that read it later.
  void run_again(const ConcatPart& part, std::int32_t n) {
    GraphNode again = graph_.nodes[part.maker];
    const ValueId value = add_value(Value(graph_.values[part.value]));
    again.outputs[0] = value;
    last_read_[value] = last_read_[part.value];
    for (const std::int32_t reader : readers_[part.value]) {
      if (reader == n) continue;
      readers_[value].push_back(reader);
      for (ValueId& input : graph_.nodes[reader].inputs)
        if (input == part.value) input = value;
    }
    again_[static_cast<std::size_t>(part.again_at)].push_back(std::move(again));
    for (std::int32_t at = n + 1; at < part.again_at; ++at) live_bytes_[static_cast<std::size_t>(at)] -= part.num_bytes;
  }

  /// Whether, with the parts of `makers` placed, no moment from the first of them on holds more than copying does.
  bool holds_no_more(std::int32_t n, const std::vector<ConcatPart>& parts, std::int32_t first_maker) const {
    const std::int64_t whole = graph_.values[graph_.nodes[n].outputs[0]].type.num_bytes();
    std::int64_t copying = 0, placing = 0;
    for (std::int32_t at = first_maker; at <= n; ++at) {
      std::int64_t placed = 0;  // of the parts that are there by then
      for (const ConcatPart& part : parts)
        if (part.maker >= first_maker && part.maker <= at) placed += part.num_bytes;
      const std::int64_t all = live_bytes_[static_cast<std::size_t>(at)];
      copying = std::max(copying, all);
      placing = std::max(placing, all - placed + (at < n ? whole : 0));
    }
    return placing <= copying;
  }

  /// Whether the node is replaced: by its parts' makers, and copies of the others.
  bool place(std::int32_t n) {
    const std::vector<ConcatPart> parts = parts_of(n);
    std::vector<std::int32_t> makers;
    for (const ConcatPart& part : parts)
      if (part.maker >= 0) makers.push_back(part.maker);
    std::sort(makers.begin(), makers.end());
    const auto first =
        std::find_if(makers.begin(), makers.end(), [&](std::int32_t maker) { return holds_no_more(n, parts, maker); });
    if (first == makers.end()) return false;
    std::vector<const ConcatPart*> order;  // in which the whole is filled
    order.reserve(parts.size());
    for (const ConcatPart& part : parts) order.push_back(&part);
    const auto is_placed = [&](const ConcatPart* part) { return part->maker >= *first; };
    std::stable_sort(order.begin(), order.end(), [&](const ConcatPart* a, const ConcatPart* b) {
      if (is_placed(a) != is_placed(b)) return is_placed(a);
      return is_placed(a) && a->maker < b->maker;
    });
    const GraphNode concat = graph_.nodes[n];
    const ValueId y = concat.outputs[0];
    const Value whole = graph_.values[y];
    std::optional<ValueId> so_far;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const ConcatPart& part = *order[i];
      ValueId next = y;
      if (i + 1 < order.size()) {
        next = add_value(whole);
      }
      if (is_placed(&part)) {
        if (part.again_at >= 0) run_again(part, n);
        GraphNode& maker = graph_.nodes[part.maker];
        maker.op = placed_op(std::move(maker.op), whole.type, part.first, so_far.has_value());
        if (so_far) maker.inputs.push_back(*so_far);
        maker.outputs[0] = next;
      } else {
        GraphNode copy = concat;
        copy.op = place_channels_op(graph_.values[part.value].type, whole.type, part.first, so_far.has_value());
        copy.inputs = {part.value};
        if (so_far) copy.inputs.push_back(*so_far);
        copy.outputs = {next};
        copies_[static_cast<std::size_t>(n)].push_back(std::move(copy));
      }
      so_far = next;
    }
    return true;
  }

  Graph& graph_;
  const ValueUses uses_;
  std::vector<std::vector<std::int32_t>> readers_;
  std::vector<std::int32_t> last_read_;
  std::vector<std::int64_t> live_bytes_;
  std::vector<std::vector<GraphNode>> again_;   // before each node
  std::vector<std::vector<GraphNode>> copies_;  // behind each node
};

}  // namespace

void place_concatenated(Graph& graph, bool in_place) {
  if (in_place) ConcatPlacement(graph).run();
}

}  // namespace trainer
