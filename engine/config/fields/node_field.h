#pragma once

#include <optional>
#include <string>
#include <utility>

#include "engine/config/fields/field.h"
#include "engine/config/yaml/node_text.h"
#include "engine/config/yaml/yaml_tree.h"
#include "engine/errors.h"

namespace trainer {

/// A field whose value is a list or a map of maps with fields of their own, as a Value the JSON that `read` reads back.
/// `reset` makes it empty.
template <class Owner>
Field<Owner> node_field(const std::string& key, const Rule& rule, const std::string& help,
                        std::function<void(Owner&)> reset, std::function<void(Owner&, const Node&, SourceSet&)> read,
                        std::function<Node(const Owner&)> node) {
  Field<Owner> result;
  result.key = key;
  result.rule = rule;
  result.help = help;
  result.get = [node](const Owner& owner) {
    const Node list = node(owner);
    return list.kind == NodeKind::null ? Value() : Value(json_text(list, -1));
  };
  result.set = [reset, read](Owner& owner, const Value& value) {
    const auto* text = std::get_if<std::string>(&value);
    reset(owner);
    if (text == nullptr) return;
    SourceSet sources;
    const std::optional<Node> list = parse_yaml(sources, sources.add_argument(*text), *text);
    require_internal(list.has_value(), "what a field gives is read back");
    read(owner, *list, sources);
  };
  result.read = std::move(read);
  result.node = std::move(node);
  return result;
}

}  // namespace trainer
