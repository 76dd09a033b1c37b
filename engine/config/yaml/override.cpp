#include "engine/config/yaml/override.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/config/fields/experiment_fields.h"
#include "engine/config/fields/layer_fields.h"
#include "engine/config/text/nearest_word.h"
#include "engine/config/text/number_text.h"
#include "engine/config/text/utf8_text.h"
#include "engine/config/yaml/yaml_tree.h"

namespace trainer {
namespace {

constexpr std::size_t longest_argument = std::size_t{1} << 16;
constexpr std::size_t most_components = 64;

bool is_key_letter(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_' || letter == '-';
}

/// The value of a key that is a word or a map of one key gives way to a map of another key.
void choose_form(Node& node, const std::string& key, const Mark& mark, const std::string& path) {
  const ExperimentField* field = find_field(path);
  if (field == nullptr || field->rule.kind != ValueKind::form) return;
  if (node.kind == NodeKind::map && node.find(key) != nullptr) return;
  node = Node{};
  node.mark = mark;
}

/// The entry of a map, which is made where absent; what is no map becomes one.
MapEntry& entry_of(Node& node, const std::string& key, const Mark& mark) {
  if (node.kind != NodeKind::map) {
    node = Node{};
    node.kind = NodeKind::map;
    node.mark = mark;
  }
  for (MapEntry& entry : node.entries)
    if (entry.key == key) return entry;
  Node absent;
  absent.mark = mark;
  node.entries.push_back({key, mark, std::move(absent)});
  return node.entries.back();
}

/// The name that a layer in the list has been given; empty: none.
std::string name_of_layer(const Node& layer) {
  if (layer.kind != NodeKind::map || layer.entries.size() != 1) return "";
  const Node& keys = layer.entries.front().value;
  const Node* const name = keys.kind == NodeKind::map ? keys.find("name") : nullptr;
  return name != nullptr && name->kind == NodeKind::scalar ? name->text : "";
}

std::vector<std::string> names_of_layers(const Node& list) {
  std::vector<std::string> names;
  for (const Node& item : list.items)
    if (std::string name = name_of_layer(item); !name.empty()) names.push_back(std::move(name));
  return names;
}

/// Whether what stands at `path` is an element of a list of losses or stages, not of layers.
bool has_plain_keys(const std::string& path) {
  const std::string list(section_of(path));
  if (list == "stages") return true;
  return find_field(list + ".terms") != nullptr || (last_of(list) == "terms" && find_field(list) != nullptr);
}

/// The element at a position, or the layer of a name; null where there is none.
const Node* find_element(const Node& list, const std::string& place) {
  const auto index = read_integer(place);
  const auto* number = std::get_if<std::int64_t>(&index);
  if (number != nullptr && *number >= 0 && *number < static_cast<std::int64_t>(list.items.size()))
    return &list.items[static_cast<std::size_t>(*number)];
  for (const Node& item : list.items)
    if (name_of_layer(item) == place) return &item;
  return nullptr;
}
Node* find_element(Node& list, const std::string& place) {
  return const_cast<Node*>(find_element(std::as_const(list), place));
}

bool has_key(const LayerKind& kind, const std::string& key) {
  const std::vector<std::string> keys = kind.keys();
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

/// What a layer is called by: its word, or its one key; empty: it is no layer.
std::string kind_of_layer(const Node& layer) {
  if (layer.kind == NodeKind::scalar && !layer.quoted) return layer.text;
  return layer.kind == NodeKind::map && layer.entries.size() == 1 ? layer.entries.front().key : "";
}

std::tuple<int, int, int> place_of_kind(const Node& layer) {
  const Mark& mark = layer.kind == NodeKind::map ? layer.entries.front().key_mark : layer.mark;
  return {mark.source, mark.line, mark.column};
}

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

bool WrittenLayers::is_use(const Node& layer) const {
  const std::string kind = kind_of_layer(layer);
  if (kind != "repeat" || layer.kind != NodeKind::map) return parameters.contains(kind);
  const Node* const variable = layer.entries.front().value.find("as");
  return variable != nullptr && variable->kind != NodeKind::null;
}

void WrittenLayers::add(const Node& list, const std::string& path) {
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    const Node& layer = list.items[i];
    const std::string name = name_of_layer(layer), kind = kind_of_layer(layer);
    const std::string place = fmt::format("{}.{}", path, name.empty() ? fmt::format("{}", i) : name);
    if (is_use(layer)) uses.emplace(place_of_kind(layer), Use{place, kind});
    if (layer.kind != NodeKind::map || kind.empty()) continue;
    for (const MapEntry& entry : layer.entries.front().value.entries)
      if (entry.value.kind == NodeKind::sequence) add(entry.value, fmt::format("{}.{}.{}", place, kind, entry.key));
  }
}

bool Override::reaches_use(const Node& layers, const WrittenLayers& written) const {
  const Node* list = &layers;
  for (std::size_t i = 2; i + 1 < components_.size(); ++i) {
    const Node* const layer = find_element(*list, components_[i].text);
    if (layer == nullptr) return false;
    const std::string& next = components_[i + 1].text;
    const std::string kind = kind_of_layer(*layer);
    if (written.is_use(*layer)) {
      if (next == kind) return true;
      const bool is_last = i + 2 == components_.size();
      return is_last &&
             (kind == "repeat" ? next == "times" || next == "as" : contains(written.parameters.at(kind), next));
    }
    if (layer->kind != NodeKind::map || kind.empty()) return false;
    const Node& keys = layer->entries.front().value;
    if (next == kind) ++i;
    const Node* inner = i + 1 < components_.size() ? keys.find(components_[i + 1].text) : nullptr;
    if (inner != nullptr && inner->kind == NodeKind::sequence) {
      ++i;
    } else {
      inner = kind == "sequential" ? keys.find("layers") : nullptr;
      if (inner == nullptr || inner->kind != NodeKind::sequence) return false;
    }
    list = inner;
  }
  return false;
}

Override::Override(const std::string& argument, SourceSet& sources)
    : argument_(argument), sources_(sources), source_(sources.add_argument(argument)) {
  if (!split() || !parse_value()) return;
  if (components_.size() == 1 && components_[0].text == "extends") {
    report(components_[0].mark, "'extends' can only be written in a file");
    return;
  }
  key_ = argument_.substr(0, value_begin_ - 1);
  is_valid_ = true;
}

void Override::apply(Node& root, const WrittenLayers* written) {
  if (!is_valid_) return;
  written_ = written;
  Node* node = &root;
  std::string path;
  is_element_ = false;
  for (const Component& component : components_) {
    choose_form(*node, component.text, component.mark, path);
    node = descend(*node, component, path);
    if (node == nullptr) return;
    path = path.empty() ? component.text : path + "." + component.text;
  }
  *node = std::move(value_);
}

void Override::report(const Mark& mark, std::string message, std::string expectation, std::string suggestion) {
  sources_.report(mark, std::move(message), std::move(expectation), std::move(suggestion));
}

Mark Override::mark(std::size_t offset, std::size_t num_bytes) const {
  const std::string_view text = argument_;
  return {source_, 1, static_cast<int>(num_code_points(text.substr(0, offset))) + 1,
          std::max(1, static_cast<int>(num_code_points(text.substr(offset, num_bytes))))};
}

bool Override::split() {
  const std::size_t equals = argument_.find('=');
  if (argument_.size() > longest_argument || argument_.find('\n') != std::string::npos) {
    report(mark(0, 1), argument_.size() > longest_argument ? "longer than 64 KiB" : "goes over several lines",
           "key=value");
    return false;
  }
  if (equals == std::string::npos) {
    report(mark(0, argument_.size()), "no '=' in it", "key=value, such as train.batch_size=64");
    return false;
  }
  std::size_t begin = 0;
  while (begin <= equals) {
    const std::size_t end = std::min(equals, argument_.find('.', begin));
    const std::string text = argument_.substr(begin, end - begin);
    if (text.empty() || !std::all_of(text.begin(), text.end(), is_key_letter)) {
      report(mark(begin, text.size()),
             text.empty() ? "a part of the key is missing" : fmt::format("'{}' is not a key", shortened(text)),
             "words joined by dots, such as train.batch_size");
      return false;
    }
    components_.push_back({text, mark(begin, text.size())});
    begin = end + 1;
  }
  if (components_.size() > most_components) {
    report(mark(0, equals), "the key has more than 64 parts");
    return false;
  }
  value_begin_ = equals + 1;
  return true;
}

bool Override::parse_value() {
  const std::string_view text = std::string_view(argument_).substr(value_begin_);
  if (text.find_first_not_of(" \t") == std::string_view::npos) {
    report(mark(value_begin_, 1), "no value after '='", "a value, or null for the default");
    return false;
  }
  const auto skipped = static_cast<int>(num_code_points(std::string_view(argument_).substr(0, value_begin_)));
  std::optional<Node> value = parse_yaml(sources_, source_, text, skipped);
  if (value) value_ = std::move(*value);
  return value.has_value();
}

/// ".out" after the component "linear" of "model.layers.1.linear.out"
std::string Override::rest_after(const Component& component) const {
  std::string rest;
  for (const Component* next = &component + 1; next <= &components_.back(); ++next) rest += "." + next->text;
  return rest;
}

Node* Override::descend(Node& node, const Component& component, const std::string& path) {
  const bool is_element = std::exchange(is_element_, node.kind == NodeKind::sequence);
  if (node.kind == NodeKind::sequence) return element(node, component, path);
  if (is_element && !has_plain_keys(path)) return descend_layer(node, component, path);
  if (node.kind == NodeKind::scalar) {
    report(component.mark, fmt::format("'{}' is '{}', which has no keys", path, shortened(node.text)));
    return nullptr;
  }
  return &made_entry(node, component).value;
}

MapEntry& Override::made_entry(Node& node, const Component& component) {
  MapEntry& entry = entry_of(node, component.text, component.mark);
  if (&component == &components_.back()) entry.key_mark = component.mark;
  return entry;
}

/// Of what was meant, where the layer was written out from a use of a block; empty: nothing like it.
std::string Override::written_path(const Node& layer, const Component& component) const {
  if (written_ == nullptr) return "";
  const auto use = written_->uses.find(place_of_kind(layer));
  if (use == written_->uses.end()) return "";
  const auto& [path, kind] = use->second;
  const auto parameters = written_->parameters.find(kind);
  const std::string rest = rest_after(component);
  if (component.text == kind) return path + "." + kind + rest;
  if (parameters == written_->parameters.end() || !rest.empty()) return "";
  const std::string near(nearest(component.text, parameters->second));
  if (contains(parameters->second, component.text)) return path + "." + kind + "." + component.text;
  return near.empty() ? "" : path + "." + kind + "." + near;
}

Node* Override::descend_layer(Node& layer, const Component& component, const std::string& path) {
  const bool has_one_key = layer.kind == NodeKind::map && layer.entries.size() == 1;
  const std::string kind_name = kind_of_layer(layer);
  if (layer.kind == NodeKind::null || (layer.kind == NodeKind::map && !has_one_key) || kind_name == component.text)
    return &made_entry(layer, component).value;
  const LayerKind* const kind = find_layer_kind(kind_name);
  Node* const inner = has_one_key && kind_name == "sequential" ? layer.entries.front().value.find("layers") : nullptr;
  if (inner != nullptr && inner->kind == NodeKind::sequence) {
    if (Node* const found = find_element(*inner, component.text)) {
      is_element_ = true;
      return found;
    }
  }
  const bool is_parameter = written_ != nullptr && written_->parameters.contains(kind_name) &&
                            contains(written_->parameters.at(kind_name), component.text);
  if (is_parameter || (kind != nullptr && has_key(*kind, component.text)) ||
      (kind_name == "repeat" && component.text == "as"))
    return &made_entry(entry_of(layer, kind_name, component.mark).value, component).value;
  if (!has_one_key) {
    report(component.mark, fmt::format("'{}' is '{}', which has no keys", path, shortened(layer.text)));
  } else if (kind_name == "repeat" && std::holds_alternative<std::int64_t>(read_integer(component.text))) {
    report(component.mark, fmt::format("'{}' is a repeat, whose copies are described once", path), "",
           path + ".layers" + rest_after(component));
  } else if (inner != nullptr && find_layer_kind(component.text) == nullptr) {
    const std::vector<std::string> names = names_of_layers(*inner);
    const std::string near(nearest(component.text, names));
    std::string meant = written_path(layer, component);
    if (meant.empty() && !near.empty()) meant = path + "." + near + rest_after(component);
    report(
        component.mark, fmt::format("'{}' has no layer '{}'", path, component.text),
        names.empty() ? "a layer's position" : fmt::format("a layer's position, or one of {}", fmt::join(names, ", ")),
        std::move(meant));
  } else {
    const std::string meant = written_path(layer, component);
    report(component.mark, fmt::format("'{}' is a layer of kind '{}'", path, shortened(kind_name)), "",
           meant.empty() ? path + "." + shortened(kind_name) + rest_after(component) : meant);
  }
  return nullptr;
}

Node* Override::element(Node& list, const Component& component, const std::string& path) {
  if (Node* const found = find_element(list, component.text)) return found;
  const std::size_t num_elements = list.items.size();
  const std::vector<std::string> names = names_of_layers(list);
  const std::string positions = num_elements == 0   ? ", which is empty"
                                : num_elements == 1 ? " of 1 element"
                                                    : fmt::format(" of {} elements", num_elements);
  std::string expectation = num_elements == 0 ? "" : fmt::format("a position from 0 to {}", num_elements - 1);
  if (!names.empty()) expectation += ", or a layer's name";
  const bool is_number = std::holds_alternative<std::int64_t>(read_integer(component.text));
  const std::string near(is_number ? "" : nearest(component.text, names));
  report(component.mark, fmt::format("'{}' is a list{}", path, positions), expectation,
         near.empty() ? "" : path + "." + near + rest_after(component));
  return nullptr;
}

}  // namespace trainer
