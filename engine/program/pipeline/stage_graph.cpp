#include "engine/program/pipeline/stage_graph.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "engine/ops/op_definition.h"

namespace trainer {
namespace {

/// By value, whether its gradient by trained parameters in front of it matters.
std::vector<char> depends_on_training(const Graph& forward) {
  std::vector<char> depends(forward.values.size(), 0);
  for (std::size_t p = 0; p < forward.parameters.size(); ++p) {
    if (!forward.parameters[p].trainable) continue;
    depends[forward.parameter_values[p]] = 1;
    if (const ValueId copy = forward.parameter_copies[p]; copy >= 0) depends[copy] = 1;
  }
  for (const GraphNode& node : forward.nodes) {
    const bool any = std::any_of(node.inputs.begin(), node.inputs.end(),
                                 [&](ValueId input) { return depends[root_of(forward, input)] != 0; });
    if (any)
      for (const ValueId output : node.outputs) depends[root_of(forward, output)] = 1;
  }
  return depends;
}

/// By node, whether a gradient flows back through it.
std::vector<char> leads_to_loss(const Graph& forward) {
  std::vector<char> leads(forward.nodes.size(), 0), has_gradient(forward.values.size(), 0);
  for (std::size_t n = forward.nodes.size(); n-- > 0;) {
    const GraphNode& node = forward.nodes[n];
    if (definition_of(node.op.kind).differentiate == nullptr) continue;
    if (!node.outputs.empty() && has_gradient[root_of(forward, node.outputs[0])] == 0) continue;
    leads[n] = 1;
    for (const ValueId input : node.inputs) has_gradient[root_of(forward, input)] = 1;
  }
  return leads;
}

}  // namespace

std::vector<StageMessage> stage_messages(const Graph& forward, const StageCut& cut, std::int32_t num_stages) {
  const std::vector<char> depends = depends_on_training(forward), leads = leads_to_loss(forward);
  std::vector<std::int32_t> made_in(forward.values.size(), -1);
  for (const GraphNode& node : forward.nodes)
    for (const ValueId output : node.outputs) made_in[root_of(forward, output)] = cut.chunk_of(node.layer);
  /// What a stage has been sent stays for its later chunks: they are of the same rank.
  std::map<std::pair<ValueId, std::int32_t>, StageMessage> messages;  // by value and stage
  for (std::size_t n = 0; n < forward.nodes.size(); ++n) {
    const GraphNode& node = forward.nodes[n];
    const std::int32_t chunk = cut.chunk_of(node.layer), stage = chunk % num_stages;
    for (const ValueId input : node.inputs) {
      const ValueId value = root_of(forward, input);
      if (made_in[value] < 0 || made_in[value] % num_stages == stage) continue;
      StageMessage& message =
          messages.try_emplace({value, stage}, StageMessage{.value = value, .from = made_in[value], .to = chunk})
              .first->second;
      if (forward.mode == GraphMode::training && leads[n] != 0 && depends[value] != 0) message.returns_gradient = true;
    }
  }
  std::vector<StageMessage> all;
  all.reserve(messages.size());
  for (const auto& [key, message] : messages) all.push_back(message);
  std::sort(all.begin(), all.end(), [](const StageMessage& a, const StageMessage& b) {
    return std::tie(a.to, a.from, a.value) < std::tie(b.to, b.from, b.value);
  });
  return all;
}

void keep_stage(Graph& forward, const StageCut& cut, const std::vector<StageMessage>& messages,
                const RankLayout& ranks) {
  const auto num_stages = static_cast<std::int32_t>(ranks.num_stages);
  const auto is_own = [&](std::int32_t chunk) { return chunk % num_stages == ranks.stage(); };
  const auto peer_of = [&](std::int32_t chunk) { return ranks.rank_of_stage(chunk % num_stages); };
  std::vector<GraphNode> nodes;
  const auto exchange = [&](const StageMessage& message, std::size_t number, bool sends) {
    Value& value = forward.values[message.value];
    const PeerAttributes attributes = peer_attributes(ranks.rank, peer_of(sends ? message.to : message.from),
                                                      static_cast<std::int32_t>(number), message.returns_gradient);
    GraphNode node{sends ? send_op(value.type, attributes) : receive_op(value.type, attributes),
                   {},
                   {},
                   value.layer,
                   Phase::forward};
    (sends ? node.inputs : node.outputs).push_back(message.value);
    if (!sends) value.category = Category::communication;
    nodes.push_back(std::move(node));
  };
  // Steps of training have their own order of segments (message_order.h). An evaluation runs as it stands, and each
  // waits for what it sends to be received: so it is sent when the chunk that reads it is next, by all in one order.
  const bool sends_when_read = forward.mode == GraphMode::evaluation;
  std::size_t next = 0;
  for (std::int32_t chunk = 0; chunk < cut.num_chunks(); ++chunk) {
    for (std::size_t m = 0; m < messages.size(); ++m) {
      if (messages[m].to != chunk) continue;
      if (is_own(chunk)) exchange(messages[m], m, false);
      if (sends_when_read && is_own(messages[m].from)) exchange(messages[m], m, true);
    }
    for (; next < forward.nodes.size() && cut.chunk_of(forward.nodes[next].layer) == chunk; ++next)
      if (is_own(chunk)) nodes.push_back(std::move(forward.nodes[next]));
    if (is_own(chunk) && !sends_when_read)
      for (std::size_t m = 0; m < messages.size(); ++m)
        if (messages[m].from == chunk) exchange(messages[m], m, true);
  }
  require_internal(next == forward.nodes.size(), "layers stand in the order of the model");
  forward.nodes = std::move(nodes);
}

}  // namespace trainer
