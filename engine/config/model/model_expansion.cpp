#include "engine/config/model/model_expansion.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/config/fields/layer_fields.h"
#include "engine/config/layer_reader.h"
#include "engine/config/model/expression.h"
#include "engine/config/shipped_configs.h"
#include "engine/config/text/nearest_word.h"
#include "engine/config/text/number_text.h"
#include "engine/config/text/utf8_text.h"
#include "engine/config/yaml/compose.h"
#include "engine/config/yaml/yaml_scan.h"
#include "engine/config/yaml/yaml_tree.h"
#include "engine/errors.h"

namespace trainer {
namespace {

/// Of `model.layers`: the file, `model` and the list.
constexpr std::size_t depth_of_layers = 3;
/// A list in a layer: the layer, its keys and the list.
constexpr std::size_t depth_of_inner_list = 3;

bool is_given(const Node* node) { return node != nullptr && (node->kind != NodeKind::null || node->absent); }

/// Takes an entry out of a map; null where there is none.
Node take_entry(Node& map, std::string_view key, Mark* key_mark = nullptr) {
  const auto entry =
      std::find_if(map.entries.begin(), map.entries.end(), [&](const MapEntry& each) { return each.key == key; });
  if (entry == map.entries.end()) return {};
  Node value = std::move(entry->value);
  if (key_mark != nullptr) *key_mark = entry->key_mark;
  map.entries.erase(entry);
  return value;
}

bool has_conditions(const Node& node) {
  const auto in_entry = [](const MapEntry& entry) {
    return entry.key == "when" || entry.key == "as" || has_conditions(entry.value);
  };
  return std::any_of(node.entries.begin(), node.entries.end(), in_entry) ||
         std::any_of(node.items.begin(), node.items.end(), has_conditions);
}

/// What is beside parameters in the use of a block.
bool is_key_of_use(std::string_view key) { return key == "name" || key == "from" || key == "share" || key == "when"; }

}  // namespace

namespace {

/// Writes out the network of a loss, which is said like a model.
void expand_network(Node& loss, const std::string& path, const std::string& config_path, SourceSet& sources,
                    ReferenceResolver& resolver) {
  Node* const network = loss.kind == NodeKind::map ? loss.find("network") : nullptr;
  if (network == nullptr || network->kind != NodeKind::map) return;
  Node alone;
  alone.kind = NodeKind::map;
  alone.entries.push_back({"model", network->mark, std::move(*network)});
  std::vector<Override*> none;  // what is set in it was set where it is written
  if (needs_expansion(alone))
    ModelExpansion(alone, config_path, sources, resolver, "loss.network", path + ".network").expand(none);
  *network = std::move(alone.entries.front().value);
}

}  // namespace

void expand_loss_networks(Node& root, const std::string& config_path, SourceSet& sources, ReferenceResolver& resolver) {
  Node* const loss = root.find("loss");
  if (loss == nullptr) return;
  Node* const terms = loss->kind == NodeKind::map ? loss->find("terms") : loss;
  if (terms == nullptr || terms->kind != NodeKind::sequence)
    return expand_network(*loss, "loss", config_path, sources, resolver);
  const char* const path = terms == loss ? "loss" : "loss.terms";
  for (std::size_t i = 0; i < terms->items.size(); ++i)
    expand_network(terms->items[i], fmt::format("{}.{}", path, i), config_path, sources, resolver);
}

bool needs_expansion(const Node& root) {
  const Node* model = root.find("model");
  if (model == nullptr || model->kind != NodeKind::map) return false;
  for (const std::string_view key : {"file", "with", "blocks"})
    if (model->find(key) != nullptr) return true;
  const Node* layers = model->find("layers");
  return layers != nullptr && has_conditions(*layers);
}

void ModelExpansion::expand(std::vector<Override*>& overrides) {
  Node& model = *root_.find("model");
  Mark with_mark, blocks_mark, layers_mark;
  const Node file = take_entry(model, "file");
  Node with = take_entry(model, "with", &with_mark);
  blocks_node_ = take_entry(model, "blocks", &blocks_mark);
  // References name them all the same.
  resolver_.keep(path_ + ".file", file);
  if (with.kind == NodeKind::map) resolver_.keep(path_ + ".with", with);
  resolver_.keep(path_ + ".blocks", blocks_node_);
  if (is_given(&file)) {
    const Node layers = take_entry(model, "layers", &layers_mark);
    if (is_given(&layers))
      sources_.report(layers_mark, fmt::format("'{0}.layers' stands beside '{0}.file'", key_),
                      "one of them; layers: null or file: null takes one back");
    if (is_given(&blocks_node_))
      sources_.report(blocks_mark, fmt::format("'{0}.blocks' stands beside '{0}.file'", key_),
                      "blocks in the model's file");
    read_file(file, std::move(with), overrides);
    return;
  }
  if (is_given(&with))
    sources_.report(with_mark, fmt::format("'{}.with' has no parameters to give values to", key_),
                    fmt::format("{}.file, whose parameters it sets", key_));
  if (is_given(&blocks_node_)) blocks_ = read_blocks(blocks_node_, sources_);
  for (const auto& [name, block] : blocks_)
    for (const ModelParameter& parameter : block.parameters)
      note_integer(fmt::format("model.blocks.{}.parameters.{}{}", name, parameter.name,
                               parameter.is_described ? ".default" : ""),
                   parameter.initial.text, parameter);
  Node* const layers = model.find("layers");
  if (layers == nullptr || layers->kind != NodeKind::sequence) return;
  set_in_uses(*layers, overrides);
  put_layers(Node(*layers));
}

void ModelExpansion::set_in_uses(Node& layers, std::vector<Override*>& overrides) {
  for (const auto& [name, block] : blocks_) written_.parameters[name] = block.parameter_names();
  std::vector<Override*> later;
  for (Override* const each : overrides) {
    // One that waits may replace what this one sets.
    const bool waits = std::any_of(later.begin(), later.end(),
                                   [&](const Override* other) { return each->key().starts_with(other->key() + "."); });
    if (waits || !each->reaches_use(layers, written_)) {
      later.push_back(each);
      continue;
    }
    const Mark mark = layers.mark;
    Node alone, model;
    alone.kind = model.kind = NodeKind::map;
    model.entries.push_back({"layers", mark, std::move(layers)});
    alone.entries.push_back({"model", mark, std::move(model)});
    each->apply(alone, &written_);
    layers = std::move(*alone.find("model")->find("layers"));
  }
  overrides = std::move(later);
  written_.add(layers, "model.layers");
}

void ModelExpansion::expand_again() {
  Node* model = root_.find("model");
  Node* layers = model == nullptr ? nullptr : model->find("layers");
  if (layers == nullptr || layers->kind != NodeKind::sequence) return;
  use_ = 0;
  num_nodes_ = num_bytes_ = 0;
  put_layers(Node(*layers));
}

void ModelExpansion::put_layers(const Node& layers) {
  Node list;
  list.kind = NodeKind::sequence;
  list.mark = marked(layers.mark, use_);
  expand_list(layers, {&scope_, use_, depth_of_layers}, list.items);
  Node& model = *root_.find("model");
  if (Node* present = model.find("layers"))
    *present = std::move(list);
  else
    model.entries.push_back({"layers", list.mark, std::move(list)});
}

std::string ModelExpansion::path_of(const Node& file) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path beside = (fs::path(config_path_).parent_path() / file.text).lexically_normal();
  if (fs::exists(beside, ignored)) return beside.string();
  const fs::path shipped = fs::path(file.text).is_absolute() ? fs::path() : find_shipped_config(file.text);
  return shipped.empty() ? beside.string() : shipped.string();
}

void ModelExpansion::read_file(const Node& file, Node with, std::vector<Override*>& overrides) {
  Node path = file;
  if (path.kind == NodeKind::scalar) resolver_.resolve(path, key_ + ".file", nullptr);
  if (path.is_broken) return put_layers({});
  if (path.kind != NodeKind::scalar || path.text.empty()) {
    sources_.report(path.mark, fmt::format("'{}.file' names one file", key_),
                    "a path relative to this file, or of a model that comes with trainer, such as models/resnet.yaml");
    return put_layers({});
  }
  const std::string found = path_of(path);
  std::string text;
  try {
    text = read_config_file(found);
  } catch (const ConfigError& error) {
    sources_.report(path.mark, error.what(),
                    "a file beside this one, or one that comes with trainer, such as models/resnet.yaml");
    return put_layers({});
  }
  file_ = parse_keys(sources_, text, found, "at least layers", "layers: [flatten, linear: {out: 10}]");
  const std::vector<std::string> keys{"parameters", "blocks", "layers", "maps", "groups"};
  for (const MapEntry& entry : file_.entries)
    if (std::find(keys.begin(), keys.end(), entry.key) == keys.end())
      sources_.report(entry.key_mark, fmt::format("unknown key '{}' in a model's file", shortened(entry.key)),
                      fmt::format("one of {}", fmt::join(keys, ", ")), std::string(nearest(entry.key, keys)));
  const std::string owner = fmt::format("'{}'", shortened(path.text));
  std::vector<ModelParameter> parameters;
  if (const Node* node = file_.find("parameters")) parameters = read_parameters(*node, owner, sources_);
  if (const Node* node = file_.find("blocks")) blocks_ = read_blocks(*node, sources_);
  use_ = sources_.add_use(marked(path.mark, uses_of_arguments(with)));
  Node* layers = file_.find("layers");
  if (layers == nullptr || layers->kind != NodeKind::sequence) {
    sources_.report(layers == nullptr ? file_.mark : layers->mark, fmt::format("{} has no list of layers", owner),
                    "layers: [flatten, linear: {out: 10}]");
    layers = nullptr;
  }
  if (is_given(&with) && with.kind != NodeKind::map && with.kind != NodeKind::null) {
    sources_.report(with.mark, fmt::format("'{}.with' gives values to parameters", key_), "with: {depth: 50}");
    with = {};
  }
  const Scope no_names;
  const Place caller{&no_names, 0, depth_of_layers};
  const bool binds =
      bind(parameters, owner, with.kind == NodeKind::map ? &with : nullptr, false, path.mark, caller, use_, scope_);
  if (binds) {
    Node values;
    values.kind = NodeKind::map;
    for (const ModelParameter& parameter : parameters) {
      const ReferredText* const value = scope_.find(parameter.name);
      if (value == nullptr) continue;
      note_integer("model.with." + parameter.name, value->text, parameter);
      Node node;
      node.kind = NodeKind::scalar;
      node.is_resolved = true;
      node.mark = path.mark;
      node.is_computed = value->is_computed;
      node.text = value->text;
      values.entries.push_back({parameter.name, path.mark, std::move(node)});
    }
    resolver_.keep(path_ + ".with", std::move(values));
  }
  if (path_ == "model") {
    put_maps();
    put_groups();
  }
  if (layers != nullptr) set_in_uses(*layers, overrides);
  put_layers(binds && layers != nullptr ? *layers : Node{});
}

void ModelExpansion::put_maps() {
  Node* const maps = file_.find("maps");
  if (maps == nullptr || maps->kind == NodeKind::null) return;
  Node& model = *root_.find("model");
  Node* const given = model.find("maps");
  if (!is_given(given)) {
    take_entry(model, "maps");
    model.entries.push_back({"maps", maps->mark, std::move(*maps)});
  } else if (given->kind == NodeKind::map && maps->kind == NodeKind::map) {
    for (MapEntry& entry : maps->entries)
      if (given->find(entry.key) == nullptr) given->entries.push_back(std::move(entry));
  }
}

void ModelExpansion::put_groups() {
  Node* const groups = file_.find("groups");
  Node& model = *root_.find("model");
  if (groups == nullptr || groups->kind == NodeKind::null || is_given(model.find("groups"))) return;
  take_entry(model, "groups");
  model.entries.push_back({"groups", groups->mark, std::move(*groups)});
}

void ModelExpansion::apply_map() {
  Node* const weights = root_.find("weights");
  if (weights == nullptr || weights->kind != NodeKind::map) return;
  const Node name = take_entry(*weights, "map");
  if (!is_given(&name)) return;
  const Node* const model = root_.find("model");
  const Node* const maps = model == nullptr || model->kind != NodeKind::map ? nullptr : model->find("maps");
  if (maps == nullptr || maps->kind != NodeKind::map) {
    sources_.report(name.mark, "'weights.map' names a map of the model, and there is none",
                    "model.file with maps, or model.maps: {hub: {rename: …, transpose: …, ignore: …}}");
    return;
  }
  std::vector<std::string> names;
  for (const MapEntry& entry : maps->entries) names.push_back(entry.key);
  const Node* const map = name.kind == NodeKind::scalar ? maps->find(name.text) : nullptr;
  if (map == nullptr) {
    sources_.report(name.mark, fmt::format("the model has no map '{}'", shortened(name.text)),
                    fmt::format("one of {}", fmt::join(names, ", ")), std::string(nearest(name.text, names)));
    return;
  }
  const std::vector<std::string> keys{"rename", "transpose", "ignore"};
  Node optional;
  optional.kind = NodeKind::sequence;
  optional.mark = name.mark;
  for (const MapEntry& entry : map->entries) {
    if (std::find(keys.begin(), keys.end(), entry.key) == keys.end() || weights->find(entry.key) != nullptr) continue;
    weights->entries.push_back(entry);
    if (entry.key == "transpose") continue;
    Node key;
    key.kind = NodeKind::scalar;
    key.mark = name.mark;
    key.text = entry.key;
    optional.items.push_back(std::move(key));
  }
  if (!optional.items.empty() && weights->find("optional") == nullptr)
    weights->entries.push_back({"optional", name.mark, std::move(optional)});
}

int ModelExpansion::uses_of_arguments(const Node& with) {
  int use = 0;
  for (const MapEntry& entry : with.entries)
    if (sources_.is_argument(entry.value.mark.source)) use = sources_.add_use(marked(entry.value.mark, use));
  return use;
}

void ModelExpansion::note_integer(std::string key, const std::string& text, const ModelParameter& parameter) {
  const auto value = read_integer(text);
  if (!std::holds_alternative<std::int64_t>(value)) return;
  IntegerParameter noted{std::move(key), std::get<std::int64_t>(value), {}};
  for (const std::string& choice : parameter.one_of)
    if (const auto number = read_integer(choice); std::holds_alternative<std::int64_t>(number))
      noted.one_of.push_back(std::get<std::int64_t>(number));
  integer_parameters_.push_back(std::move(noted));
}

Mark ModelExpansion::marked(Mark mark, int use) {
  if (use != 0) mark.use = use;
  return mark;
}

void ModelExpansion::count(std::size_t num_bytes, const Mark& mark) {
  num_bytes_ += num_bytes;
  if (++num_nodes_ > most_nodes) {
    sources_.report(mark, fmt::format("more than {} values once blocks and repeats are written out", most_nodes));
    sources_.throw_mistakes();
  }
  if (num_bytes_ > most_scalar_bytes) {
    sources_.report(mark, "more than 4 MiB of text once blocks and repeats are written out");
    sources_.throw_mistakes();
  }
}

Node ModelExpansion::resolved(const Node& node, const Place& place) {
  Node copy;
  copy.kind = node.kind;
  copy.quoted = node.quoted;
  copy.absent = node.absent;
  copy.is_broken = node.is_broken;
  copy.is_resolved = node.is_resolved;
  copy.is_computed = node.is_computed;
  copy.mark = marked(node.mark, place.use);
  copy.text = node.text;
  if (copy.kind == NodeKind::scalar) resolver_.resolve(copy, key_ + ".layers", place.scope);
  count(copy.text.size(), copy.mark);
  for (const MapEntry& entry : node.entries)
    copy.entries.push_back({entry.key, marked(entry.key_mark, place.use), resolved(entry.value, place)});
  for (const Node& item : node.items) copy.items.push_back(resolved(item, place));
  return copy;
}

void ModelExpansion::expand_list(const Node& list, const Place& place, std::vector<Node>& out) {
  if (place.depth + depth_of_inner_list > deepest_nesting) {
    sources_.report(marked(list.mark, place.use),
                    fmt::format("nested more than {} deep once blocks are written out", deepest_nesting));
    return;
  }
  for (const Node& item : list.items) expand_item(item, place, out);
}

void ModelExpansion::expand_item(const Node& item, const Place& place, std::vector<Node>& out) {
  count(0, marked(item.mark, place.use));
  if (item.kind == NodeKind::scalar) {
    Node layer = resolved(item, place);
    if (layer.is_broken) return;
    if (const auto block = blocks_.find(layer.text); block != blocks_.end())
      use_block(block->second, layer.mark, nullptr, place, out);
    else if (find_layer_kind(layer.text) == nullptr)
      report_unknown(layer.text, layer.mark);
    else
      out.push_back(std::move(layer));
    return;
  }
  if (item.kind != NodeKind::map || item.entries.size() != 1) {
    out.push_back(resolved(item, place));  // whoever reads layers says what is wrong
    return;
  }
  const MapEntry& layer = item.entries.front();
  if (layer.value.kind == NodeKind::map && !is_there(layer.value, place)) return;
  if (const auto block = blocks_.find(layer.key); block != blocks_.end())
    return use_block(block->second, marked(layer.key_mark, place.use), &layer.value, place, out);
  if (find_layer_kind(layer.key) == nullptr) return report_unknown(layer.key, marked(layer.key_mark, place.use));
  if (layer.key == "repeat" && layer.value.kind == NodeKind::map && is_given(layer.value.find("as")))
    return unroll(layer, place, out);
  expand_layer(item, place, out);
}

bool ModelExpansion::is_there(const Node& keys, const Place& place) {
  const Node* when = keys.find("when");
  if (!is_given(when)) return true;
  const Node condition = resolved(*when, place);
  if (condition.is_broken) return true;
  const std::string& text = condition.text;
  const bool is_scalar = condition.kind == NodeKind::scalar && !condition.quoted;
  if (const std::optional<bool> truth = truth_of_word(text); is_scalar && truth) return *truth;
  const auto number = read_integer(text);
  if (is_scalar && std::holds_alternative<std::int64_t>(number)) return std::get<std::int64_t>(number) != 0;
  sources_.report(condition.mark,
                  condition.kind == NodeKind::scalar
                      ? fmt::format("'when' is '{}', which is neither true nor false", shortened(text))
                      : "'when' is neither true nor false",
                  "an expression such as ${stride != 1}, true or false");
  return true;
}

void ModelExpansion::expand_layer(const Node& item, const Place& place, std::vector<Node>& out) {
  const MapEntry& layer = item.entries.front();
  const LayerKind& kind = *find_layer_kind(layer.key);
  Node keys;
  if (layer.value.kind != NodeKind::map) {
    keys = resolved(layer.value, place);
  } else {
    keys.kind = NodeKind::map;
    keys.mark = marked(layer.value.mark, place.use);
    for (const MapEntry& entry : layer.value.entries) {
      if (entry.key == "when") continue;
      const auto field =
          std::find_if(kind.fields.begin(), kind.fields.end(), [&](const auto& each) { return each.key == entry.key; });
      const bool is_list = field != kind.fields.end() && field->layers && entry.value.kind == NodeKind::sequence;
      Node value;
      if (is_list) {
        value.kind = NodeKind::sequence;
        value.mark = marked(entry.value.mark, place.use);
        const std::size_t mistakes_before = sources_.num_mistakes();
        expand_list(entry.value, {place.scope, place.use, place.depth + depth_of_inner_list}, value.items);
        if (value.items.empty() && !entry.value.items.empty()) {
          if (sources_.num_mistakes() == mistakes_before && !is_recursive_ && field->is_required)
            sources_.report(marked(entry.key_mark, place.use),
                            fmt::format("none of the '{}' of '{}' is there", entry.key, kind.name),
                            "at least one layer whose 'when' is true, or 'when' on the whole");
          if (field->is_required) return;
        }
      } else {
        value = resolved(entry.value, place);
      }
      keys.entries.push_back({entry.key, marked(entry.key_mark, place.use), std::move(value)});
    }
  }
  Node copy;
  copy.kind = NodeKind::map;
  copy.mark = marked(item.mark, place.use);
  copy.entries.push_back({layer.key, marked(layer.key_mark, place.use), std::move(keys)});
  out.push_back(std::move(copy));
}

bool ModelExpansion::bind(const std::vector<ModelParameter>& parameters, const std::string& owner, const Node* given,
                          bool is_use, const Mark& mark, const Place& caller, int use, Scope& scope) {
  const std::size_t mistakes_before = sources_.num_mistakes();
  std::vector<std::string> names;
  names.reserve(parameters.size());
  for (const ModelParameter& each : parameters) names.push_back(each.name);
  if (given != nullptr) {
    for (const MapEntry& entry : given->entries) {
      if (is_use && is_key_of_use(entry.key)) continue;
      if (std::find(names.begin(), names.end(), entry.key) != names.end()) continue;
      sources_.report(marked(entry.key_mark, caller.use),
                      fmt::format("{} has no parameter '{}'", owner, shortened(entry.key)),
                      names.empty() ? "no parameters" : fmt::format("one of {}", fmt::join(names, ", ")),
                      std::string(nearest(entry.key, names)));
    }
  }
  for (const ModelParameter& parameter : parameters) {
    const Node* argument = given == nullptr ? nullptr : given->find(parameter.name);
    Node value;
    if (is_given(argument)) {
      value = resolved(*argument, caller);
      if (value.kind != NodeKind::scalar) {
        sources_.report(value.mark, fmt::format("parameter '{}' of {} takes one value", parameter.name, owner),
                        "an integer, true, false or a word");
        continue;
      }
    } else if (parameter.is_required()) {
      sources_.report(mark, fmt::format("{} needs '{}'", owner, parameter.name),
                      fmt::format("a value for it: {{{}: …}}", parameter.name));
      continue;
    } else {
      value = resolved(parameter.initial, {&scope, use, 0});
    }
    if (value.is_broken) continue;
    if (!parameter.one_of.empty() &&
        std::find(parameter.one_of.begin(), parameter.one_of.end(), value.text) == parameter.one_of.end())
      sources_.report(value.mark,
                      fmt::format("{} does not take {} for '{}'", owner, shortened(value.text), parameter.name),
                      fmt::format("one of {}", fmt::join(parameter.one_of, ", ")));
    scope.values.emplace_back(parameter.name, ReferredText{value.text, value.is_computed});
  }
  return sources_.num_mistakes() == mistakes_before;
}

void ModelExpansion::use_block(const ModelBlock& block, const Mark& mark, const Node* keys, const Place& place,
                               std::vector<Node>& out) {
  if (block.layers == nullptr) return;  // which was reported
  if (std::find(way_.begin(), way_.end(), block.name) != way_.end()) {
    // Where names say so, it was found before anything was written out.
    if (!std::exchange(is_recursive_, true) && !sources_.has_mistakes())
      sources_.report(mark,
                      fmt::format("block '{0}' uses itself: {1} → {0}", block.name,
                                  shortened(fmt::format("{}", fmt::join(way_, " → ")), 200)),
                      "blocks that end");
    return;
  }
  if (keys != nullptr && keys->kind != NodeKind::map && keys->kind != NodeKind::null) {
    sources_.report(marked(keys->mark, place.use),
                    fmt::format("the parameters of block '{}' have no names", block.name), block.example());
    return;
  }
  const int use = sources_.add_use(mark);
  Scope scope;
  scope.outer = &scope_;
  if (!bind(block.parameters, fmt::format("block '{}'", block.name), keys, true, mark, place, use, scope)) return;
  Node layers;
  layers.kind = NodeKind::sequence;
  layers.mark = mark;
  const std::size_t mistakes_before = sources_.num_mistakes();
  way_.push_back(block.name);
  expand_list(*block.layers, {&scope, use, place.depth + depth_of_inner_list}, layers.items);
  way_.pop_back();
  if (layers.items.empty()) {
    if (sources_.num_mistakes() == mistakes_before && !is_recursive_)
      sources_.report(mark, fmt::format("no layer of block '{}' is there", block.name),
                      "'when' at its use, which leaves it out");
    return;
  }
  Node sequential;
  sequential.kind = NodeKind::map;
  sequential.mark = mark;
  sequential.entries.push_back({"layers", mark, std::move(layers)});
  if (keys != nullptr)
    for (const std::string_view key : {"name", "from", "share"})
      if (const auto entry = std::find_if(keys->entries.begin(), keys->entries.end(),
                                          [&](const MapEntry& each) { return each.key == key; });
          entry != keys->entries.end())
        sequential.entries.push_back({entry->key, marked(entry->key_mark, place.use), resolved(entry->value, place)});
  Node layer;
  layer.kind = NodeKind::map;
  layer.mark = mark;
  layer.entries.push_back({"sequential", mark, std::move(sequential)});
  out.push_back(std::move(layer));
}

void ModelExpansion::unroll(const MapEntry& repeat, const Place& place, std::vector<Node>& out) {
  const std::array<std::string, 4> keys{"times", "layers", "as", "when"};
  constexpr std::string_view example = "repeat: {times: 4, as: i, layers: [linear: {out: 64}, relu]}";
  const std::size_t mistakes_before = sources_.num_mistakes();
  for (const MapEntry& entry : repeat.value.entries) {
    if (std::find(keys.begin(), keys.end(), entry.key) != keys.end()) continue;
    const bool is_of_layer = entry.key == "name" || entry.key == "from" || entry.key == "share";
    sources_.report(marked(entry.key_mark, place.use),
                    is_of_layer
                        ? fmt::format("'{}' does not go with 'as', which writes the copies into this list", entry.key)
                        : fmt::format("unknown key '{}' in 'repeat'", shortened(entry.key)),
                    is_of_layer ? fmt::format("'{}' in its layers, or a sequential around it", entry.key)
                                : fmt::format("one of {}", fmt::join(keys, ", ")),
                    is_of_layer ? "" : std::string(nearest(entry.key, keys)));
  }
  const Node variable = resolved(*repeat.value.find("as"), place);
  if (variable.kind != NodeKind::scalar || !is_parameter_name(variable.text))
    sources_.report(variable.mark, "'as' is no name", "letters, digits and '_', not a digit first, such as i");
  else if (place.scope != nullptr && place.scope->find(variable.text) != nullptr)
    sources_.report(variable.mark, fmt::format("'{}' is already a name here", variable.text), "another name");
  const Node* times_node = repeat.value.find("times");
  const Node* layers = repeat.value.find("layers");
  if (!is_given(times_node) || layers == nullptr || layers->kind != NodeKind::sequence) {
    sources_.report(marked(repeat.key_mark, place.use), "'repeat' needs 'times' and a list of layers",
                    std::string(example));
    return;
  }
  const Node times_value = resolved(*times_node, place);
  const std::optional<Value> times = read_value(times_value, integer(0), "times", sources_);
  if (!times || sources_.num_mistakes() != mistakes_before) return;
  for (std::int64_t i = 0; i < std::get<std::int64_t>(*times); ++i) {
    count(0, times_value.mark);
    const Scope scope{place.scope, {{variable.text, ReferredText{fmt::format("{}", i)}}}};
    expand_list(*layers, {&scope, place.use, place.depth}, out);
  }
}

void ModelExpansion::report_unknown(const std::string& name, const Mark& mark) {
  std::vector<std::string> names;
  for (const auto& [each, block] : blocks_) names.push_back(each);
  std::string near(nearest(name, names));
  if (near.empty()) near = suggest_layer(name);
  sources_.report(
      mark, fmt::format("unknown layer '{}'", shortened(name)),
      fmt::format("{}one of {}", names.empty() ? "" : fmt::format("a block ({}), or ", fmt::join(names, ", ")),
                  fmt::join(layer_kind_names(), ", ")),
      near);
}

}  // namespace trainer
