#include "engine/config/yaml/override.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "engine/config/fields/experiment_fields.h"
#include "engine/config/text/nearest_word.h"
#include "engine/config/text/number_text.h"
#include "engine/config/text/utf8_text.h"
#include "engine/config/yaml/yaml_tree.h"

namespace trainer {
namespace {

constexpr std::size_t longest_argument = std::size_t{1} << 16;
constexpr std::size_t most_components = 64;

/// One part of a dotted key, and where it stands in the argument.
struct Component {
  std::string text;
  Mark mark;
};

bool is_key_letter(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_' || letter == '-';
}

class Override {
 public:
  Override(const std::string& argument, SourceSet& sources)
      : argument_(argument), sources_(sources), source_(sources.add_argument(argument)) {}

  void apply(Node& root) {
    if (!split() || !parse_value()) return;
    if (components_.size() == 1 && components_[0].text == "extends") {
      report(components_[0].mark, "'extends' can only be written in a file");
      return;
    }
    Node* node = &root;
    std::string path;
    for (std::size_t i = 0; i < components_.size(); ++i) {
      const bool in_list = i > 0 && is_list_;
      is_list_ = node->kind == NodeKind::sequence;
      choose_form(*node, components_[i], path);
      node = descend(*node, components_[i], path, in_list);
      if (node == nullptr) return;
      path = path.empty() ? components_[i].text : path + "." + components_[i].text;
    }
    *node = std::move(value_);
  }

 private:
  void report(const Mark& mark, std::string message, std::string expectation = "", std::string suggestion = "") {
    sources_.report(mark, std::move(message), std::move(expectation), std::move(suggestion));
  }

  Mark mark(std::size_t offset, std::size_t num_bytes) const {
    const std::string_view text = argument_;
    return {source_, 1, static_cast<int>(num_code_points(text.substr(0, offset))) + 1,
            std::max(1, static_cast<int>(num_code_points(text.substr(offset, num_bytes))))};
  }

  bool split() {
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

  bool parse_value() {
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
  std::string rest_after(const Component& component) const {
    std::string rest;
    for (const Component* next = &component + 1; next <= &components_.back(); ++next) rest += "." + next->text;
    return rest;
  }

  /// The value of a key that is a word or a map of one key gives way to a map of another key.
  static void choose_form(Node& node, const Component& component, const std::string& path) {
    const ExperimentField* field = find_field(path);
    if (field == nullptr || field->rule.kind != ValueKind::form) return;
    if (node.kind == NodeKind::map && node.find(component.text) != nullptr) return;
    node = Node{};
    node.mark = component.mark;
  }

  Node* descend(Node& node, const Component& component, const std::string& path, bool is_element) {
    switch (node.kind) {
      case NodeKind::sequence:
        return element(node, component, path);
      case NodeKind::scalar:
        if (is_element && node.text == component.text && !node.quoted) break;
        report(component.mark, fmt::format("'{}' is '{}', which has no keys", path, shortened(node.text)));
        return nullptr;
      case NodeKind::map:
        if (is_element && node.entries.size() == 1 && node.entries[0].key != component.text) {
          report(component.mark, fmt::format("'{}' is a layer of kind '{}'", path, shortened(node.entries[0].key)), "",
                 path + "." + shortened(node.entries[0].key) + rest_after(component));
          return nullptr;
        }
        break;
      case NodeKind::null:
        break;
    }
    if (node.kind != NodeKind::map) {
      node = Node{};
      node.kind = NodeKind::map;
      node.mark = component.mark;
    }
    for (MapEntry& entry : node.entries) {
      if (entry.key != component.text) continue;
      if (&component == &components_.back()) entry.key_mark = component.mark;
      return &entry.value;
    }
    Node absent;
    absent.mark = component.mark;
    node.entries.push_back({component.text, component.mark, std::move(absent)});
    return &node.entries.back().value;
  }

  /// The name that a layer in the list has been given; empty: none.
  static std::string name_of_layer(const Node& layer) {
    if (layer.kind != NodeKind::map || layer.entries.size() != 1) return "";
    const Node& keys = layer.entries.front().value;
    const Node* const name = keys.kind == NodeKind::map ? keys.find("name") : nullptr;
    return name != nullptr && name->kind == NodeKind::scalar ? name->text : "";
  }

  Node* element(Node& list, const Component& component, const std::string& path) {
    const auto index = read_integer(component.text);
    const auto* number = std::get_if<std::int64_t>(&index);
    const auto num_elements = static_cast<std::int64_t>(list.items.size());
    if (number != nullptr && *number >= 0 && *number < num_elements)
      return &list.items[static_cast<std::size_t>(*number)];
    std::vector<std::string> names;
    for (Node& item : list.items) {
      std::string name = name_of_layer(item);
      if (name == component.text) return &item;
      if (!name.empty()) names.push_back(std::move(name));
    }
    const std::string positions = num_elements == 0   ? ", which is empty"
                                  : num_elements == 1 ? " of 1 element"
                                                      : fmt::format(" of {} elements", num_elements);
    std::string expectation = num_elements == 0 ? "" : fmt::format("a position from 0 to {}", num_elements - 1);
    if (!names.empty()) expectation += ", or a layer's name";
    const std::string near(number == nullptr ? nearest(component.text, names) : "");
    report(component.mark, fmt::format("'{}' is a list{}", path, positions), expectation,
           near.empty() ? "" : path + "." + near + rest_after(component));
    return nullptr;
  }

  const std::string& argument_;
  SourceSet& sources_;
  int source_;
  std::vector<Component> components_;
  std::size_t value_begin_ = 0;
  Node value_;
  bool is_list_ = false;
};

}  // namespace

void apply_override(Node& root, const std::string& argument, SourceSet& sources) {
  Override(argument, sources).apply(root);
}

}  // namespace trainer
