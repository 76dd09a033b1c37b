#include "engine/config/model/block.h"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/config/fields/layer_fields.h"
#include "engine/config/model/expression.h"
#include "engine/config/text/nearest_word.h"
#include "engine/config/text/utf8_text.h"

namespace trainer {
namespace {

constexpr std::string_view block_example = "{parameters: {width: 64}, layers: [linear: {out: \"${width}\"}, relu]}";

/// What `repeat`, blocks and layers take beside parameters.
bool is_taken(std::string_view name) {
  constexpr std::array<std::string_view, 10> taken{"name", "from", "share", "when", "and",
                                                   "or",   "not",  "min",   "max",  "if"};
  return truth_of_word(name) || std::find(taken.begin(), taken.end(), name) != taken.end();
}

bool is_scalar(const Node& node) { return node.kind == NodeKind::scalar; }

/// `{default: 50, one_of: [18, 34, 50]}`
void read_described(const MapEntry& entry, ModelParameter& parameter, SourceSet& sources) {
  parameter.is_described = true;
  for (const MapEntry& key : entry.value.entries) {
    if (key.key == "default") {
      if (is_scalar(key.value))
        parameter.initial = key.value;
      else if (key.value.kind != NodeKind::null)
        sources.report(key.value.mark, "a default is one value", "42 or word");
    } else if (key.key == "one_of") {
      const bool is_list = key.value.kind == NodeKind::sequence && !key.value.items.empty() &&
                           std::all_of(key.value.items.begin(), key.value.items.end(), is_scalar);
      if (!is_list) sources.report(key.value.mark, "'one_of' lists the values there may be", "[18, 34, 50]");
      for (const Node& item : key.value.items) parameter.one_of.push_back(item.text);
    } else {
      const std::vector<std::string> keys{"default", "one_of"};
      sources.report(key.key_mark,
                     fmt::format("unknown key '{}' in parameter '{}'", shortened(key.key), parameter.name),
                     "one of default, one_of", std::string(nearest(key.key, keys)));
    }
  }
}

class BlockReader {
 public:
  explicit BlockReader(SourceSet& sources) : sources_(sources) {}

  std::map<std::string, ModelBlock> read(const Node& node) {
    if (node.kind == NodeKind::null) return {};
    if (node.kind != NodeKind::map) {
      sources_.report(node.mark, "'blocks' names blocks", fmt::format("blocks: {{hidden: {}}}", block_example));
      return {};
    }
    for (const MapEntry& entry : node.entries) read_block(entry);
    for (const auto& [name, block] : blocks_) look_for_itself(block);
    return std::move(blocks_);
  }

 private:
  void read_block(const MapEntry& entry) {
    ModelBlock block;
    block.name = entry.key;
    block.mark = entry.key_mark;
    if (find_layer_kind(entry.key) != nullptr) {
      sources_.report(entry.key_mark, fmt::format("'{}' is already a kind of layer", entry.key), "another name");
      return;
    }
    if (!is_parameter_name(entry.key)) {
      sources_.report(entry.key_mark, fmt::format("'{}' is no name for a block", shortened(entry.key)),
                      "letters, digits and '_', not a digit first, and no word of expressions");
      return;
    }
    const std::string owner = fmt::format("block '{}'", block.name);
    if (entry.value.kind != NodeKind::map) {
      sources_.report(entry.value.kind == NodeKind::null ? entry.key_mark : entry.value.mark,
                      fmt::format("{} has no layers", owner), std::string(block_example));
      return;
    }
    for (const MapEntry& key : entry.value.entries) {
      if (key.key == "parameters") {
        block.parameters = read_parameters(key.value, owner, sources_);
      } else if (key.key == "layers") {
        if (key.value.kind == NodeKind::sequence)
          block.layers = &key.value;
        else
          sources_.report(key.value.mark, fmt::format("the layers of {} are not a list", owner),
                          "a list of layers, each after '- '");
      } else {
        const std::vector<std::string> keys{"parameters", "layers"};
        sources_.report(key.key_mark, fmt::format("unknown key '{}' in {}", shortened(key.key), owner),
                        "one of parameters, layers", std::string(nearest(key.key, keys)));
      }
    }
    if (entry.value.find("layers") == nullptr)
      sources_.report(entry.key_mark, fmt::format("{} has no layers", owner), std::string(block_example));
    blocks_.emplace(block.name, std::move(block));
  }

  /// Depth first along the uses that are written as names; those that an expression names are seen when they are
  /// written out.
  void look_for_itself(const ModelBlock& block) {
    if (done_.contains(block.name)) return;
    way_.push_back(block.name);
    if (block.layers != nullptr) look_at(*block.layers);
    way_.pop_back();
    done_.insert(block.name);
  }

  void look_at(const Node& list) {
    for (const Node& item : list.items) {
      if (item.kind == NodeKind::scalar) {
        go_to(item.text, item.mark);
        continue;
      }
      for (const MapEntry& entry : item.entries) {
        go_to(entry.key, entry.key_mark);
        for (const MapEntry& key : entry.value.entries)
          if (key.value.kind == NodeKind::sequence) look_at(key.value);
      }
    }
  }

  void go_to(const std::string& name, const Mark& mark) {
    const auto block = blocks_.find(name);
    if (block == blocks_.end()) return;
    if (const auto begin = std::find(way_.begin(), way_.end(), name); begin != way_.end()) {
      sources_.report(mark,
                      fmt::format("block '{}' uses itself: {} → {}", name,
                                  shortened(fmt::format("{}", fmt::join(begin, way_.end(), " → ")), 200), name),
                      "blocks that end");
      return;
    }
    look_for_itself(block->second);
  }

  SourceSet& sources_;
  std::map<std::string, ModelBlock> blocks_;
  std::vector<std::string> way_;
  std::set<std::string> done_;
};

}  // namespace

std::vector<std::string> ModelBlock::parameter_names() const {
  std::vector<std::string> names;
  names.reserve(parameters.size());
  for (const ModelParameter& each : parameters) names.push_back(each.name);
  return names;
}

std::string ModelBlock::example() const {
  std::string keys;
  for (const ModelParameter& each : parameters)
    if (each.is_required()) keys += fmt::format("{}{}: …", keys.empty() ? "" : ", ", each.name);
  return keys.empty() ? name : fmt::format("{}: {{{}}}", name, keys);
}

bool is_parameter_name(std::string_view name) {
  return is_name(name) && name.find('.') == std::string_view::npos && !is_taken(name);
}

std::vector<ModelParameter> read_parameters(const Node& node, const std::string& owner, SourceSet& sources) {
  std::vector<ModelParameter> parameters;
  if (node.kind == NodeKind::null) return parameters;
  if (node.kind != NodeKind::map) {
    sources.report(node.mark, fmt::format("the parameters of {} are names", owner), "parameters: {width: , stride: 1}");
    return parameters;
  }
  for (const MapEntry& entry : node.entries) {
    ModelParameter parameter;
    parameter.name = entry.key;
    parameter.mark = entry.key_mark;
    if (!is_parameter_name(entry.key)) {
      sources.report(
          entry.key_mark, fmt::format("'{}' is no name for a parameter", shortened(entry.key)),
          is_taken(entry.key) ? "a name with no meaning of its own" : "letters, digits and '_', not a digit first");
      continue;
    }
    if (entry.value.kind == NodeKind::map)
      read_described(entry, parameter, sources);
    else if (entry.value.kind == NodeKind::sequence)
      sources.report(entry.value.mark, fmt::format("parameter '{}' cannot be a list", entry.key),
                     "one value, or {default: 50, one_of: [18, 34, 50]}");
    else
      parameter.initial = entry.value;
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

std::map<std::string, ModelBlock> read_blocks(const Node& node, SourceSet& sources) {
  return BlockReader(sources).read(node);
}

}  // namespace trainer
