#include "engine/program/pipeline/stage_graph.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/program/check_order.h"
#include "tests/program/pipeline/cut_models.h"

// What stages keep of a model, and send each other.

using namespace trainer;

namespace {

/// The same, and in 16 bit.
std::vector<CutModel> models_of_both_widths() {
  std::vector<CutModel> models = models_to_cut();
  for (const CutModel& model : models_to_cut()) models.push_back(trained_with(model, "amp: bf16"));
  return models;
}

/// One stage after the other, what it keeps of a forward pass.
std::vector<Graph> kept_stages(const Graph& forward, const StageCut& cut, std::int32_t num_stages) {
  const std::vector<StageMessage> messages = stage_messages(forward, cut, num_stages);
  std::vector<Graph> stages;
  for (std::int32_t stage = 0; stage < num_stages; ++stage) {
    stages.push_back(forward);
    keep_stage(stages.back(), cut, messages, {.num_stages = num_stages, .rank = stage});
  }
  return stages;
}

/// What is wrong where stages run side by side, a receive as soon as its message was sent; empty: nothing.
std::string mistake_of_stages(const Graph& forward, const std::vector<Graph>& stages,
                              const std::vector<StageMessage>& messages) {
  std::multiset<NodeKey> open;
  for (const GraphNode& node : forward.nodes) open.insert(key_of(node));
  std::set<ValueId> given;
  for (std::size_t v = 0; v < forward.values.size(); ++v)
    if (forward.values[v].parameter >= 0) given.insert(static_cast<ValueId>(v));
  for (const ValueId field : forward.fields()) given.insert(field);
  for (const ValueId each : {forward.loss_statistics, forward.loss_scale, forward.metric_counts}) given.insert(each);
  std::vector<std::set<ValueId>> there(stages.size(), given);
  std::vector<std::size_t> next(stages.size(), 0);
  std::set<std::int32_t> sent, received;
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    for (std::size_t s = 0; s < stages.size(); ++s)
      for (; next[s] < stages[s].nodes.size(); ++next[s], goes_on = true) {
        const GraphNode& node = stages[s].nodes[next[s]];
        for (const ValueId input : node.inputs)
          if (there[s].count(root_of(forward, input)) == 0) return "a stage reads what it does not have";
        if (sends_or_receives(node)) {
          const auto& attributes = attributes_of<PeerAttributes>(node.op);
          const StageMessage& message = messages.at(static_cast<std::size_t>(attributes.message));
          const bool sends = node.op.kind == OpKind::send;
          const auto num_stages = static_cast<std::int32_t>(stages.size());
          const std::int32_t own = (sends ? message.from : message.to) % num_stages;
          const std::int32_t peer = (sends ? message.to : message.from) % num_stages;
          if (own != static_cast<std::int32_t>(s) || attributes.peer() != peer) return "a message of other stages";
          if (attributes.returns_gradient != message.returns_gradient) return "stages disagree about gradients";
          if ((sends ? node.inputs : node.outputs) != std::vector{message.value}) return "another value";
          if ((sends ? node.op.inputs : node.op.outputs) != std::vector{forward.values[message.value].type})
            return "another type";
          if (!sends && sent.count(attributes.message) == 0) break;
          if (!(sends ? sent : received).insert(attributes.message).second) return "sent or received twice";
        } else {
          const auto found = open.find(key_of(node));
          if (found == open.end()) return "a node that is done twice, or is none of the model";
          open.erase(found);
        }
        for (const ValueId output : node.outputs) there[s].insert(root_of(forward, output));
      }
  }
  for (std::size_t s = 0; s < stages.size(); ++s)
    if (next[s] < stages[s].nodes.size()) return "a stage waits for ever";
  if (!open.empty()) return "a node that no stage does";
  if (sent.size() != messages.size() || received != sent) return "a message that is not sent, or not received";
  return {};
}

/// By message number, the phases in which a stage sends it and receives it, or its gradient.
std::map<std::pair<std::int32_t, Phase>, int> exchanges_of(const Graph& graph, OpKind kind) {
  std::map<std::pair<std::int32_t, Phase>, int> counts;
  for (const GraphNode& node : graph.nodes)
    if (node.op.kind == kind) ++counts[{attributes_of<PeerAttributes>(node.op).message, node.phase}];
  return counts;
}

/// What is wrong with the backward passes of stages, beside that of the whole model; empty: nothing.
std::string mistake_of_gradients(const Graph& forward, std::vector<Graph> stages, const StageCut& cut,
                                 const std::vector<StageMessage>& messages) {
  const auto num_stages = static_cast<std::int32_t>(stages.size());
  Graph whole = forward;
  differentiate(whole);
  for (Graph& stage : stages) differentiate(stage);
  const std::vector<std::vector<std::int32_t>> readers = stages_of_parameters(forward, cut, num_stages);
  for (std::size_t p = 0; p < whole.parameters.size(); ++p)
    for (std::int32_t s = 0; s < num_stages; ++s) {
      const bool reads = std::find(readers[p].begin(), readers[p].end(), s) != readers[p].end();
      if ((stages[static_cast<std::size_t>(s)].parameter_gradients[p] >= 0) !=
          (reads && whole.parameter_gradients[p] >= 0))
        return "a gradient of " + whole.parameters[p].name + " too few or too many in stage " + std::to_string(s);
    }
  for (std::int32_t s = 0; s < num_stages; ++s) {
    std::map<std::pair<std::int32_t, Phase>, int> sends, receives;
    for (std::size_t m = 0; m < messages.size(); ++m) {
      const auto number = static_cast<std::int32_t>(m);
      if (messages[m].from % num_stages == s) sends[{number, Phase::forward}] = 1;
      if (messages[m].to % num_stages == s) receives[{number, Phase::forward}] = 1;
      if (!messages[m].returns_gradient) continue;
      if (messages[m].to % num_stages == s) sends[{number, Phase::backward}] = 1;
      if (messages[m].from % num_stages == s) receives[{number, Phase::backward}] = 1;
    }
    const Graph& graph = stages[static_cast<std::size_t>(s)];
    if (exchanges_of(graph, OpKind::send) != sends) return "stage " + std::to_string(s) + " sends something else";
    if (exchanges_of(graph, OpKind::receive) != receives)
      return "stage " + std::to_string(s) + " receives something else";
    for (const GraphNode& node : graph.nodes)
      if (sends_or_receives(node) && node.phase == Phase::backward) {
        const ValueId value = messages[static_cast<std::size_t>(attributes_of<PeerAttributes>(node.op).message)].value;
        const std::vector<TensorType>& types = node.op.kind == OpKind::send ? node.op.inputs : node.op.outputs;
        if (types != std::vector{forward.values[value].type}) return "a gradient of another type";
      }
  }
  return {};
}

/// The messages that a reading of the nodes asks for: of each value, one to each other stage that reads it.
std::map<std::pair<ValueId, std::int32_t>, std::pair<std::int32_t, std::int32_t>> messages_wanted(
    const Graph& forward, const StageCut& cut, std::int32_t num_stages) {
  std::map<std::pair<ValueId, std::int32_t>, std::pair<std::int32_t, std::int32_t>> wanted;  // from, to
  for (const GraphNode& maker : forward.nodes)
    for (const ValueId output : maker.outputs)
      for (const GraphNode& reader : forward.nodes)
        for (const ValueId input : reader.inputs) {
          if (root_of(forward, input) != root_of(forward, output)) continue;
          const std::int32_t from = part_of(cut, maker.layer), to = part_of(cut, reader.layer);
          if (from % num_stages == to % num_stages) continue;
          const auto [known, is_new] =
              wanted.try_emplace({root_of(forward, output), to % num_stages}, std::pair(from, to));
          if (!is_new) known->second.second = std::min(known->second.second, to);
        }
  return wanted;
}

}  // namespace

TEST_CASE("a stage is sent what it reads of others, each value once, and its forward pass is all of its layers") {
  for (const CutModel& model : models_of_both_widths())
    for (const GraphMode mode : {GraphMode::training, GraphMode::evaluation}) {
      const Graph forward = forward_to_cut(model, mode);
      for (const auto& [num_stages, num_chunks] : {std::pair{2, 2}, {3, 3}, {2, 4}, {4, 4}})
        for (const StageCut& cut : all_cuts(forward, static_cast<std::size_t>(num_chunks))) {
          if (num_chunks == 4 && (cut.begins[0] + 3 * cut.begins[1] + 5 * cut.begins[2]) % 7 != 0) continue;
          INFO(model.name << ", " << num_stages << " stages, cut at " << Catch::Detail::stringify(cut.begins));
          const std::vector<StageMessage> messages = stage_messages(forward, cut, num_stages);
          auto wanted = messages_wanted(forward, cut, num_stages);
          std::vector<std::tuple<std::int32_t, std::int32_t, ValueId>> order;
          for (const StageMessage& message : messages) {
            order.emplace_back(message.to, message.from, message.value);
            const auto found = wanted.find({message.value, message.to % num_stages});
            REQUIRE(found != wanted.end());
            CHECK(found->second == std::pair(message.from, message.to));
            wanted.erase(found);
            if (mode == GraphMode::evaluation || forward.values[message.value].type.dtype == DType::i32)
              CHECK_FALSE(message.returns_gradient);
          }
          CHECK(wanted.empty());
          CHECK(std::is_sorted(order.begin(), order.end()));
          const std::vector<Graph> stages = kept_stages(forward, cut, num_stages);
          CHECK(mistake_of_stages(forward, stages, messages) == "");
          if (mode == GraphMode::training) CHECK(mistake_of_gradients(forward, stages, cut, messages) == "");
        }
    }
}

TEST_CASE("a stage's passes make what they read before they read it") {
  for (const CutModel& model : models_of_both_widths()) {
    const Graph forward = forward_to_cut(model);
    for (const std::int32_t num_stages : {2, 3}) {
      INFO(model.name << ", " << num_stages << " stages");
      for (Graph& stage : kept_stages(forward, cut_into_stages(forward, stages_alone(num_stages)), num_stages)) {
        differentiate(stage);
        check_order(stage);
      }
    }
  }
}

TEST_CASE("gradients of what nothing is trained in front of are not returned") {
  const std::string layers =
      "{linear: {out: 16, name: a}}, {linear: {out: 16, name: b}}, {linear: {out: 16, name: c}}, {linear: {out: 10}}";
  const auto returned = [&](const std::string& freeze) {
    const Graph forward = forward_to_cut(numbers_to_cut(layers, freeze));
    std::string text;
    for (const StageMessage& message : stage_messages(forward, cut_into_stages(forward, stages_alone(4)), 4))
      text += message.returns_gradient ? 'y' : 'n';
    return text;
  };
  CHECK(returned("") == "yyy");
  CHECK(returned("freeze: [a]\n") == "nyy");
  CHECK(returned("freeze: [a, b]\n") == "nny");
  CHECK(returned("freeze: [b, c]\n") == "yyy");
  CHECK(returned("freeze: [\"*\", \"!3\"]\n") == "nnn");
}

TEST_CASE("tokens are no messages, and where documents are goes once to each stage with attention, one way") {
  const Graph forward = forward_to_cut(texts_to_cut());
  const auto at = [&](const std::string& path) { return layer_called(forward, path); };
  const StageCut cut{{at("2.layers.1"), at("3.layers.2"), at("head")}};
  std::map<std::int32_t, int> of_integers;  // by destination
  int num_others = 0;
  for (const StageMessage& message : stage_messages(forward, cut, 4)) {
    CHECK(message.value != root_of(forward, forward.inputs[0]));
    if (forward.values[message.value].type.dtype != DType::i32) {
      CHECK(message.returns_gradient);
      ++num_others;
      continue;
    }
    CHECK_FALSE(message.returns_gradient);
    CHECK(message.from == 0);
    ++of_integers[message.to];
  }
  CHECK(of_integers == std::map<std::int32_t, int>{{1, 1}, {2, 1}});
  CHECK(num_others == 5);  // a block's norm and its sum's other term go to 1, so do products and such a term to 2
}

TEST_CASE("parameters are of the stages that read them, a shared embedding of two") {
  const Graph forward = forward_to_cut(texts_to_cut());
  const StageCut cut{{layer_called(forward, "2.layers.3"), layer_called(forward, "head")}};
  const std::vector<std::vector<std::int32_t>> stages = stages_of_parameters(forward, cut, 3);
  REQUIRE(stages.size() == forward.parameters.size());
  for (std::size_t p = 0; p < stages.size(); ++p) {
    INFO(forward.parameters[p].name);
    if (forward.parameters[p].name == "wte.weight")
      CHECK(stages[p] == std::vector{0, 2});
    else
      CHECK(stages[p] == std::vector{part_of(cut, forward.parameters[p].layer)});
  }
  // Interleaved, chunks 0 and 2 are of one stage.
  const std::vector<std::vector<std::int32_t>> interleaved = stages_of_parameters(forward, cut, 2);
  for (std::size_t p = 0; p < interleaved.size(); ++p)
    CHECK(interleaved[p] == std::vector{part_of(cut, forward.parameters[p].layer) % 2});
}
