#include "engine/config/yaml/references.h"

#include <cstdlib>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/config/fields/experiment_fields.h"
#include "engine/config/text/nearest_word.h"
#include "engine/config/text/number_text.h"
#include "engine/config/text/utf8_text.h"

namespace trainer {
namespace {

constexpr std::size_t longest_expansion = 4096;
constexpr std::size_t longest_chain = 64;

class Resolver {
 public:
  Resolver(Node& root, SourceSet& sources) : root_(root), sources_(sources) {}

  void resolve_all(Node& node, const std::string& key) {
    if (node.kind == NodeKind::scalar) {
      resolve(node, key);
      return;
    }
    for (MapEntry& entry : node.entries) resolve_all(entry.value, join_key(key, entry.key));
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      // Keys only serve messages about references, and most elements have none.
      const bool is_plain = node.items[i].kind == NodeKind::scalar && node.items[i].text.find('$') == std::string::npos;
      if (!is_plain) resolve_all(node.items[i], fmt::format("{}.{}", key, i));
    }
  }

 private:
  Mark span(const Node& node, std::size_t begin, std::size_t end) const {
    Mark mark = node.mark;
    const std::string_view text = node.text;
    mark.column += static_cast<int>(num_code_points(text.substr(0, begin))) + (node.quoted ? 1 : 0);
    mark.length = static_cast<int>(num_code_points(text.substr(begin, end - begin)));
    return mark;
  }

  void resolve(Node& node, const std::string& key) {
    if (node.text.find("${") == std::string::npos || done_.contains(&node)) return;
    done_.insert(&node);
    chain_.push_back({&node, key});
    std::string result;
    std::size_t at = 0;
    bool has_reference = false;
    const std::size_t mistakes_before = sources_.num_mistakes();
    while (at < node.text.size()) {
      const std::size_t begin = node.text.find("${", at);
      if (begin == std::string::npos) break;
      if (begin > at && node.text[begin - 1] == '$') {
        result += node.text.substr(at, begin - 1 - at) + "${";
        at = begin + 2;
        continue;
      }
      const std::size_t end = node.text.find('}', begin);
      if (end == std::string::npos) {
        sources_.report(span(node, begin, begin + 2), "'${' is never closed", "'}' after the key");
        break;
      }
      result += node.text.substr(at, begin - at);
      result += value_of(node.text.substr(begin + 2, end - begin - 2), span(node, begin, end + 1));
      has_reference = true;
      at = end + 1;
      if (result.size() > longest_expansion) {
        sources_.report(node.mark, fmt::format("references make this longer than {} bytes", longest_expansion));
        break;
      }
    }
    if (at < node.text.size()) result += node.text.substr(at);
    node.text = result.substr(0, longest_expansion);
    node.is_broken = sources_.num_mistakes() != mistakes_before;
    // "${train.epochs}" in quotes, as brackets ask for, stands for a number all the same.
    if (has_reference) node.quoted = false;
    chain_.pop_back();
  }

  std::string value_of(const std::string& name, const Mark& mark) {
    if (name.starts_with("env:")) return environment(name.substr(4), mark);
    Node* node = find(name);
    if (node == nullptr || node->kind == NodeKind::null) return default_of(name, mark);
    if (node->kind != NodeKind::scalar) {
      sources_.report(mark, fmt::format("'{}' is a {}, not a single value", shortened(name),
                                        node->kind == NodeKind::map ? "section" : "list"));
      return "";
    }
    if (leads_back(node, name, mark)) return "";
    if (chain_.size() >= longest_chain) {
      sources_.report(mark, fmt::format("more than {} references one after the other", longest_chain));
      return "";
    }
    resolve(*node, name);
    return node->text;
  }

  bool leads_back(const Node* node, const std::string& name, const Mark& mark) {
    for (std::size_t i = 0; i < chain_.size(); ++i) {
      if (chain_[i].node != node) continue;
      std::string way;
      for (std::size_t j = i; j < chain_.size(); ++j) way += chain_[j].key + " → ";
      sources_.report(mark, fmt::format("this reference leads back to itself: {}{}", shortened(way, 200), name));
      return true;
    }
    return false;
  }

  std::string environment(const std::string& name, const Mark& mark) {
    const char* value = name.empty() ? nullptr : std::getenv(name.c_str());
    if (value != nullptr) return value;
    sources_.report(
        mark,
        name.empty() ? "the variable's name is missing"
                     : fmt::format("environment variable '{}' is not set", shortened(name)),
        name.empty() ? "${env:NAME}" : fmt::format("a value for it, as in: {}=… trainer …", shortened(name)));
    return "";
  }

  Node* find(std::string_view name) {
    Node* node = &root_;
    while (node != nullptr && !name.empty()) {
      const std::size_t dot = std::min(name.find('.'), name.size());
      const std::string_view part = name.substr(0, dot);
      name.remove_prefix(std::min(name.size(), dot + 1));
      if (node->kind == NodeKind::sequence) {
        const auto index = read_integer(part);
        const auto* number = std::get_if<std::int64_t>(&index);
        const bool is_element =
            number != nullptr && *number >= 0 && *number < static_cast<std::int64_t>(node->items.size());
        node = is_element ? &node->items[static_cast<std::size_t>(*number)] : nullptr;
      } else {
        node = node->find(part);
      }
    }
    return node;
  }

  std::string default_of(const std::string& name, const Mark& mark) {
    const ExperimentField* field = find_field(name);
    if (field == nullptr) {
      std::vector<std::string> keys;
      for (const ExperimentField& each : experiment_fields()) keys.push_back(each.key);
      sources_.report(mark, fmt::format("there is no value '{}'", shortened(name)), "${dotted.key} or ${env:NAME}",
                      std::string(nearest(name, keys)));
      return "";
    }
    const std::string type_key = join_key(name.substr(0, name.find('.')), "type");
    const Node* type = find(type_key);
    for (const auto& [each, text] : field->type_defaults) {
      if (type != nullptr && type->text == each) return text;
    }
    const Node node = field->get ? node_of(field->get(Experiment{})) : Node{};
    if (node.kind == NodeKind::scalar) return node.text;
    sources_.report(mark, fmt::format("'{}' has no value", name),
                    "a key that is given or has a single value as default");
    return "";
  }

  struct Link {
    const Node* node = nullptr;
    std::string key;
  };
  Node& root_;
  SourceSet& sources_;
  std::set<const Node*> done_;
  std::vector<Link> chain_;
};

}  // namespace

void resolve_references(Node& root, SourceSet& sources) { Resolver(root, sources).resolve_all(root, ""); }

std::string escape_references(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, 2) == "${") result += '$';
    result += text[i];
  }
  return result;
}

}  // namespace trainer
