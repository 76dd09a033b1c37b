#include "engine/config/yaml/references.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/config/fields/experiment_fields.h"
#include "engine/config/model/expression.h"
#include "engine/config/text/nearest_word.h"
#include "engine/config/text/number_text.h"
#include "engine/config/text/utf8_text.h"
#include "engine/config/yaml/yaml_tree.h"

namespace trainer {
namespace {

constexpr std::size_t longest_expansion = 4096;
constexpr std::size_t longest_chain = 64;

/// The part of a scalar's text from `begin` to `end`.
Mark span(const Node& node, std::size_t begin, std::size_t end) {
  Mark mark = node.mark;
  const std::string_view text = node.text;
  mark.column += static_cast<int>(num_code_points(text.substr(0, begin))) + (node.quoted ? 1 : 0);
  mark.length = static_cast<int>(num_code_points(text.substr(begin, end - begin)));
  return mark;
}

std::string_view without_outer_blanks(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
  const std::size_t last = text.find_last_not_of(" \t");
  return text.substr(begin, last == std::string_view::npos ? 0 : last + 1 - begin);
}

}  // namespace

const ReferredText* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->outer)
    for (const auto& [each, text] : scope->values)
      if (each == name) return &text;
  return nullptr;
}

void ReferenceResolver::resolve_all() { resolve_below(root_, ""); }

void ReferenceResolver::resolve_below(Node& node, const std::string& key) {
  if (node.kind == NodeKind::scalar) {
    resolve(node, key, nullptr);
    return;
  }
  for (MapEntry& entry : node.entries) resolve_below(entry.value, join_key(key, entry.key));
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    // Keys only serve messages about references, and most elements have none.
    const bool is_plain = node.items[i].kind == NodeKind::scalar && node.items[i].text.find('$') == std::string::npos;
    if (!is_plain) resolve_below(node.items[i], fmt::format("{}.{}", key, i));
  }
}

void ReferenceResolver::resolve(Node& node, const std::string& key, const Scope* scope) {
  if (node.is_resolved || node.text.find("${") == std::string::npos) return;
  node.is_resolved = true;
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
    const std::string inside = node.text.substr(begin + 2, end - begin - 2);
    const std::optional<ReferredText> value = value_of(inside, span(node, begin, end + 1), scope);
    if (!value) node.is_broken = true;
    if (value) result += value->text;
    has_reference = true;
    node.is_computed = value && value->is_computed && begin == 0 && end + 1 == node.text.size();
    at = end + 1;
    if (result.size() > longest_expansion) {
      sources_.report(node.mark, fmt::format("references make this longer than {} bytes", longest_expansion));
      break;
    }
  }
  if (at < node.text.size()) result += node.text.substr(at);
  node.text = result.substr(0, longest_expansion);
  node.is_broken = node.is_broken || sources_.num_mistakes() != mistakes_before;
  // "${train.epochs}" in quotes, as brackets ask for, stands for a number all the same.
  if (has_reference) node.quoted = false;
  chain_.pop_back();
}

std::optional<ReferredText> ReferenceResolver::value_of(const std::string& text, const Mark& mark, const Scope* scope) {
  const std::string name(without_outer_blanks(text));
  if (truth_of_word(name)) return ReferredText{name};
  if (is_name(name)) return named_value(name, mark, scope);
  const bool is_variable = name.starts_with("env:");
  std::optional<std::string> value =
      is_variable ? environment(name.substr(4), mark) : computed_value(text, mark, scope);
  if (!value) return std::nullopt;
  return ReferredText{*std::move(value), !is_variable};
}

std::optional<std::string> ReferenceResolver::computed_value(const std::string& text, const Mark& mark,
                                                             const Scope* scope) {
  computes_ = true;
  num_computed_bytes_ += text.size();
  if (num_computed_bytes_ > most_scalar_bytes) {
    sources_.report(mark, "more than 4 MiB of expressions");
    sources_.throw_mistakes();
  }
  // The mark is that of "${text}".
  const auto within = [&](std::size_t begin, std::size_t end) {
    Mark part = mark;
    part.column += 2 + static_cast<int>(num_code_points(std::string_view(text).substr(0, begin)));
    part.length = std::max(1, static_cast<int>(num_code_points(std::string_view(text).substr(begin, end - begin))));
    return part;
  };
  const auto result = evaluate(text, [&](std::string_view name, std::size_t begin) -> std::optional<std::string> {
    std::optional<ReferredText> value = named_value(std::string(name), within(begin, begin + name.size()), scope);
    if (!value) return std::nullopt;
    // What a run is called may be computed of some values alone.
    if (scope == nullptr || scope->find(name) == nullptr) read_keys_.insert(std::string(name));
    return std::move(value->text);
  });
  if (const auto* number = std::get_if<std::int64_t>(&result)) return fmt::format("{}", *number);
  const auto& mistake = std::get<ExpressionMistake>(result);
  if (!mistake.message.empty())
    sources_.report(within(mistake.begin, mistake.end), mistake.message, mistake.expectation);
  return std::nullopt;
}

std::optional<ReferredText> ReferenceResolver::named_value(const std::string& name, const Mark& mark,
                                                           const Scope* scope) {
  if (const ReferredText* value = scope == nullptr ? nullptr : scope->find(name)) return *value;
  computes_ = computes_ || scope != nullptr;
  // From what a run is called nothing follows.
  const bool is_of_name = !chain_.empty() && (chain_.back().key == "name" || chain_.back().key == "output");
  if (!is_of_name) read_keys_.insert(name);
  Node* node = find(name);
  if (node == nullptr || node->kind == NodeKind::null) {
    std::optional<std::string> text = default_of(name, mark, scope);
    return text ? std::optional(ReferredText{*std::move(text)}) : std::nullopt;
  }
  if (node->kind != NodeKind::scalar) {
    sources_.report(mark, fmt::format("'{}' is a {}, not a single value", shortened(name),
                                      node->kind == NodeKind::map ? "section" : "list"));
    return std::nullopt;
  }
  if (leads_back(node, name, mark)) return std::nullopt;
  if (chain_.size() >= longest_chain) {
    sources_.report(mark, fmt::format("more than {} references one after the other", longest_chain));
    return std::nullopt;
  }
  resolve(*node, name, nullptr);
  if (node->is_broken) return std::nullopt;
  return ReferredText{node->text, node->is_computed};
}

bool ReferenceResolver::leads_back(const Node* node, const std::string& name, const Mark& mark) {
  for (std::size_t i = 0; i < chain_.size(); ++i) {
    if (chain_[i].node != node) continue;
    std::string way;
    for (std::size_t j = i; j < chain_.size(); ++j) way += chain_[j].key + " → ";
    sources_.report(mark, fmt::format("this reference leads back to itself: {}{}", shortened(way, 200), name));
    return true;
  }
  return false;
}

std::optional<std::string> ReferenceResolver::environment(const std::string& name, const Mark& mark) {
  const char* value = name.empty() ? nullptr : std::getenv(name.c_str());
  if (value != nullptr) return value;
  sources_.report(mark,
                  name.empty() ? "the variable's name is missing"
                               : fmt::format("environment variable '{}' is not set", shortened(name)),
                  name.empty() ? "${env:NAME}" : fmt::format("a value for it, as in: {}=… trainer …", shortened(name)));
  return std::nullopt;
}

Node* ReferenceResolver::find(std::string_view name) {
  if (Node* const node = find_below(root_, name)) return node;
  for (auto& [section, values] : kept_) {
    if (!name.starts_with(section)) continue;
    if (name.size() == section.size()) return &values;
    if (name[section.size()] == '.') return find_below(values, name.substr(section.size() + 1));
  }
  return nullptr;
}

Node* ReferenceResolver::find_below(Node& from, std::string_view name) {
  Node* node = &from;
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

std::optional<std::string> ReferenceResolver::default_of(const std::string& name, const Mark& mark,
                                                         const Scope* scope) {
  const ExperimentField* field = find_field(name);
  if (field == nullptr) {
    std::vector<std::string> names;
    for (const Scope* each = scope; each != nullptr; each = each->outer)
      for (const auto& [known, text] : each->values) names.push_back(known);
    const bool has_parameters = !names.empty();
    for (const ExperimentField& each : experiment_fields()) names.push_back(each.key);
    for (const auto& [section, values] : kept_)
      for (const MapEntry& entry : values.entries) names.push_back(join_key(section, entry.key));
    sources_.report(mark, fmt::format("there is no value '{}'", shortened(name)),
                    has_parameters ? "a parameter, ${dotted.key} or ${env:NAME}" : "${dotted.key} or ${env:NAME}",
                    std::string(nearest(name, names)));
    return std::nullopt;
  }
  const std::string type_key = join_key(name.substr(0, name.find('.')), "type");
  const Node* type = find(type_key);
  for (const auto& [each, text] : field->type_defaults) {
    if (type != nullptr && type->text == each) return text;
  }
  const Node node = field->get ? node_of(field->get(Experiment{})) : Node{};
  if (node.kind == NodeKind::scalar) return node.text;
  sources_.report(mark, fmt::format("'{}' has no value", name), "a key that is given or has a single value as default");
  return std::nullopt;
}

std::string escape_references(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, 2) == "${") result += '$';
    result += text[i];
  }
  return result;
}

}  // namespace trainer
