#include "engine/program/pipeline/split_backward.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/ops/op_definition.h"

namespace trainer {
namespace {

/// Which nodes wait, as far as they depend on each other.
class DeferredNodes {
 public:
  explicit DeferredNodes(const Graph& graph) : graph_(graph), waits_(graph.nodes.size(), 0) {
    for (std::size_t n = 0; n < graph.nodes.size(); ++n)
      if (definition_of(graph.nodes[n].op.kind).role == Role::weight_gradient) waits_[n] = 1;
    add_readers();
    drop_overtaken();
  }
  bool waits(std::size_t n) const { return waits_[n] != 0; }

 private:
  template <typename Visit>
  void for_each_written(const GraphNode& node, Visit&& visit) const {
    for (const ValueId output : node.outputs) visit(root_of(graph_, output));
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (may_modify_input(node.op, static_cast<int>(i))) visit(root_of(graph_, node.inputs[i]));
  }

  /// What reads what a waiting node writes waits as well.
  void add_readers() {
    std::vector<char> is_late(graph_.values.size(), 0);
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      const GraphNode& node = graph_.nodes[n];
      for (const ValueId input : node.inputs)
        if (is_late[root_of(graph_, input)] != 0) waits_[n] = 1;
      if (waits(n)) for_each_written(node, [&](ValueId value) { is_late[value] = 1; });
    }
  }

  /// Keeps nodes in their place of which something later that does not wait writes over what they read, or reads or
  /// writes what they write.
  void drop_overtaken() {
    std::vector<char> is_read(graph_.values.size(), 0), is_written(graph_.values.size(), 0);  // by what stays, later
    for (std::size_t n = graph_.nodes.size(); n-- > 0;) {
      const GraphNode& node = graph_.nodes[n];
      if (waits(n)) {
        bool is_overtaken = false;
        for (const ValueId input : node.inputs) is_overtaken = is_overtaken || is_written[root_of(graph_, input)] != 0;
        for_each_written(
            node, [&](ValueId value) { is_overtaken = is_overtaken || is_read[value] != 0 || is_written[value] != 0; });
        if (!is_overtaken) continue;
        waits_[n] = 0;
      }
      for (const ValueId input : node.inputs) is_read[root_of(graph_, input)] = 1;
      for_each_written(node, [&](ValueId value) {
        // What makes a value is not what writes over it.
        is_written[value] = std::find_if(node.outputs.begin(), node.outputs.end(), [&](ValueId output) {
                              return root_of(graph_, output) == value;
                            }) == node.outputs.end();
      });
    }
  }

  const Graph& graph_;
  std::vector<char> waits_;
};

}  // namespace

std::size_t defer_weight_gradients(Graph& graph) {
  const DeferredNodes deferred(graph);
  std::vector<GraphNode> early, late;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n)
    (deferred.waits(n) ? late : early).push_back(std::move(graph.nodes[n]));
  graph.nodes = std::move(early);
  graph.nodes.insert(graph.nodes.end(), std::make_move_iterator(late.begin()), std::make_move_iterator(late.end()));
  return late.size();
}

}  // namespace trainer
