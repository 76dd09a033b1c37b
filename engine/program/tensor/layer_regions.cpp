#include "engine/program/tensor/layer_regions.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "engine/config/diagnostic.h"

namespace trainer {
namespace {

using Sections = std::vector<std::int64_t>;

/// Who makes and who reads each value.
struct Uses {
  std::vector<std::vector<std::size_t>> readers;  // by value
  std::vector<std::int64_t> maker;                // by value; -1: none
  std::vector<char> is_viewed;                    // by value

  explicit Uses(const Graph& graph)
      : readers(graph.values.size()), maker(graph.values.size(), -1), is_viewed(graph.values.size(), 0) {
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
      for (const ValueId input : graph.nodes[n].inputs) readers[input].push_back(n);
      for (const ValueId output : graph.nodes[n].outputs) maker[output] = static_cast<std::int64_t>(n);
    }
    for (const Value& value : graph.values)
      if (value.view_of >= 0) is_viewed[value.view_of] = 1;
  }
};

/// Of a node through which a cut goes: the operands that are cut when its first output is.
std::vector<ValueId> cut_operands(const GraphNode& node) {
  switch (node.op.kind) {
    case OpKind::activation:
    case OpKind::dropout:
      return {node.inputs[0]};
    case OpKind::glu:
    case OpKind::add:
      return node.inputs;
    case OpKind::multiply:
      return node.op.inputs[0] == node.op.inputs[1] ? node.inputs : std::vector<ValueId>{};
    case OpKind::attention:
      return {node.inputs.begin(), node.inputs.begin() + num_attended_operands(node.op)};
    default:
      return {};
  }
}

class RegionSearch {
 public:
  RegionSearch(const Graph& graph, std::int64_t num_ranks, const std::vector<ClassCut>& classes)
      : graph_(graph), num_ranks_(num_ranks), uses_(graph), is_taken_(graph.nodes.size(), 0) {
    for (const ClassCut& cut : classes)
      if (cut.head) is_taken_[*cut.head] = 1;
  }

  std::vector<LayerRegion> run() {
    std::vector<LayerRegion> regions;
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (graph_.nodes[n].op.kind != OpKind::linear || is_taken_[n] != 0) continue;
      std::optional<LayerRegion> region = region_from(n);
      if (!region) continue;
      for (const auto* const nodes : {&region->starts, &region->inner, &region->ends})
        for (const std::size_t node : *nodes) is_taken_[node] = 1;
      regions.push_back(std::move(*region));
    }
    return regions;
  }

 private:
  std::optional<LayerRegion> region_from(std::size_t first) {
    starts_ = {first};
    inner_.clear();
    ends_.clear();
    cut_.clear();
    to_visit_.clear();
    if (!has_own_parameters(first) || !cut(graph_.nodes[first].outputs[0])) return std::nullopt;
    while (!to_visit_.empty()) {
      const ValueId value = to_visit_.back();
      to_visit_.pop_back();
      for (const std::size_t reader : uses_.readers[value])
        if (!follow(value, reader)) return std::nullopt;
    }
    for (const std::size_t start : starts_)
      if (ends_.contains(start) || cut_.contains(graph_.nodes[start].inputs[0])) return std::nullopt;
    LayerRegion region{
        {starts_.begin(), starts_.end()}, {inner_.begin(), inner_.end()}, {ends_.begin(), ends_.end()}, {}};
    if (!find_sections(region)) return std::nullopt;
    require_shares(region);
    return region;
  }

  /// Whether no other layer uses what this one has.
  bool has_own_parameters(std::size_t linear) const {
    const std::vector<ValueId>& inputs = graph_.nodes[linear].inputs;
    return is_taken_[linear] == 0 &&
           std::all_of(inputs.begin() + 1, inputs.end(), [&](ValueId p) { return uses_.readers[p].size() == 1; });
  }

  /// Marks a value as cut; false where it cannot be.
  bool cut(ValueId value) {
    const Value& info = graph_.values[value];
    if (uses_.is_viewed[value] != 0 || info.view_of >= 0 || info.parameter >= 0 || value == graph_.prediction ||
        uses_.readers[value].empty())
      return false;
    if (cut_.insert(value).second) to_visit_.push_back(value);
    return true;
  }

  bool follow(ValueId value, std::size_t reader) {
    const GraphNode& node = graph_.nodes[reader];
    if (node.op.kind == OpKind::linear) {
      if (node.inputs[0] != value || !has_own_parameters(reader)) return false;
      ends_.insert(reader);
      return true;
    }
    const std::vector<ValueId> operands = cut_operands(node);
    if (is_taken_[reader] != 0 || std::find(operands.begin(), operands.end(), value) == operands.end()) return false;
    if (!inner_.insert(reader).second) return true;
    for (const ValueId operand : operands)
      if (!cut_.contains(operand) && !cut_from(operand)) return false;
    return cut(node.outputs[0]);
  }

  /// What goes into the region beside what was followed is made by a linear layer that is cut as well.
  bool cut_from(ValueId operand) {
    const std::int64_t maker = uses_.maker[operand];
    if (maker < 0 || graph_.nodes[maker].op.kind != OpKind::linear) return false;
    const auto linear = static_cast<std::size_t>(maker);
    if (!has_own_parameters(linear) || ends_.contains(linear)) return false;
    starts_.insert(linear);
    return cut(operand);
  }

  /// From the ends back: false where what reads a value wants it cut in two ways.
  bool find_sections(LayerRegion& region) const {
    const auto want = [&](ValueId value, Sections sections) {
      const auto [known, is_new] = region.sections.try_emplace(value, sections);
      return is_new || known->second == sections;
    };
    for (const std::size_t end : region.ends)
      if (const ValueId x = graph_.nodes[end].inputs[0]; !want(x, {graph_.values[x].type.shape[-1]})) return false;
    for (std::size_t i = region.inner.size(); i-- > 0;) {
      const GraphNode& node = graph_.nodes[region.inner[i]];
      const auto known = region.sections.find(node.outputs[0]);
      if (known == region.sections.end()) return false;
      const Sections out = known->second;
      if ((node.op.kind == OpKind::dropout || node.op.kind == OpKind::attention) && out.size() != 1) return false;
      if (node.op.kind == OpKind::glu && node.inputs.size() == 1) {
        Sections halves = out;
        halves.insert(halves.end(), out.begin(), out.end());
        if (out.size() != 1 || !want(node.inputs[0], halves)) return false;
        continue;
      }
      const std::vector<ValueId> operands = cut_operands(node);
      for (const ValueId operand : operands)
        if (!want(operand, node.op.kind == OpKind::attention ? sections_of_heads(node, operand) : out)) return false;
    }
    return true;
  }

  static Sections sections_of_heads(const GraphNode& attention, ValueId operand) {
    const AttentionShape shape = attention_shape(attention.op);
    const std::int64_t queries = shape.heads * shape.width, keys = shape.kv_heads * shape.width;
    if (is_packed_attention(attention.op)) return {queries, keys, keys};
    return {operand == attention.inputs[0] ? queries : keys};
  }

  void require_shares(const LayerRegion& region) const {
    for (const std::size_t n : region.inner) {
      const GraphNode& node = graph_.nodes[n];
      if (node.op.kind != OpKind::attention) continue;
      const AttentionShape shape = attention_shape(node.op);
      for (const std::int64_t heads : {shape.heads, shape.kv_heads})
        if (heads % num_ranks_ != 0)
          refuse(node.layer, fmt::format("{} heads{}", heads, heads < shape.heads ? " of keys and values" : ""),
                 "a number of heads that it divides");
    }
    for (const auto& [value, sections] : region.sections)
      for (const std::int64_t length : sections)
        if (length % num_ranks_ != 0)
          refuse(graph_.values[value].layer, fmt::format("{} features", length),
                 "a number of features that it divides");
  }

  [[noreturn]] void refuse(LayerId layer, const std::string& what, const std::string& expected) const {
    const Layer& of = graph_.layers[layer];
    throw located_error(
        of.location,
        fmt::format("parallel.tensor: {} ranks cannot share the {} of layer '{}' evenly", num_ranks_, what, of.path),
        expected);
  }

  const Graph& graph_;
  const std::int64_t num_ranks_;
  const Uses uses_;
  std::vector<char> is_taken_;  // by node
  // Of the region that is looked at.
  std::set<std::size_t> starts_, inner_, ends_;
  std::set<ValueId> cut_;
  std::vector<ValueId> to_visit_;
};

/// Whether the linear layer makes logits that the loss, and nothing else, reads.
bool is_head(const Graph& graph, const Uses& uses, std::size_t linear) {
  const ValueId logits = graph.nodes[linear].outputs[0];
  const std::vector<std::size_t>& readers = uses.readers[logits];
  return uses.is_viewed[logits] == 0 && readers.size() == 1 && graph.nodes[readers[0]].op.kind == OpKind::cross_entropy;
}

/// A head that shares no rows with an embedding is worth it where it has that many classes.
constexpr std::int64_t least_cut_classes = 1024;

}  // namespace

std::vector<ClassCut> find_class_cuts(const Graph& forward, std::int64_t num_ranks, bool can_cut_loss) {
  const Uses uses(forward);
  std::vector<ClassCut> cuts;
  for (std::size_t p = 0; p < forward.parameters.size(); ++p) {
    const Parameter& parameter = forward.parameters[p];
    if (parameter.is_frozen() || parameter.type.shape.rank() != 2 || parameter.type.shape[0] < num_ranks) continue;
    ClassCut cut;
    cut.parameter = static_cast<std::int32_t>(p);
    bool can_be_cut = true;
    for (const std::size_t n : uses.readers[forward.parameter_values[p]]) {
      const GraphNode& node = forward.nodes[n];
      if (node.op.kind == OpKind::embedding)
        cut.lookups.push_back(n);
      else if (node.op.kind == OpKind::linear && !cut.head && can_cut_loss && is_head(forward, uses, n))
        cut.head = n;
      else
        can_be_cut = false;
    }
    const bool is_worth_it = !cut.lookups.empty() || (cut.head && parameter.type.shape[0] >= least_cut_classes);
    if (can_be_cut && is_worth_it) cuts.push_back(std::move(cut));
  }
  return cuts;
}

std::vector<LayerRegion> find_layer_regions(const Graph& forward, std::int64_t num_ranks,
                                            const std::vector<ClassCut>& classes) {
  return RegionSearch(forward, num_ranks, classes).run();
}

}  // namespace trainer
