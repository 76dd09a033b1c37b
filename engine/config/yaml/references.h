#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/config/yaml/source_set.h"

namespace trainer {

/// What a reference stands for.
struct ReferredText {
  std::string text;
  bool is_computed = false;  ///< as Node::is_computed
};

/// Names that stand for a text each: parameters of a block or a model, the variable of a repeat. Those of `outer` are
/// seen through it.
struct Scope {
  const Scope* outer = nullptr;
  std::vector<std::pair<std::string, ReferredText>> values;

  const ReferredText* find(std::string_view name) const;
};

/// Replaces `${env:NAME}` by an environment variable, `${dotted.key}` by the value of a key (that is not given: by its
/// default), `${name}` by what a scope says, and `${width * 2}` by the result (Note [Expressions] in
/// engine/config/model/expression.h). `$${` stands for `${`. Reports variables that are not set, keys that do not exist
/// or hold no single value, references that lead back to themselves and what is wrong with an expression.
class ReferenceResolver {
 public:
  ReferenceResolver(Node& root, SourceSet& sources) : root_(root), sources_(sources) {}

  /// Wherever they stand in the tree.
  void resolve_all();
  /// Values that are no longer in the tree, which references name all the same: `section` is the key they had.
  Node& keep(const std::string& section, Node values) { return kept_[section] = std::move(values); }
  /// In a scalar, which need not be of the tree; `key` is what messages call it.
  void resolve(Node& node, const std::string& key, const Scope* scope);

  /// The keys that were read, where there are expressions or scopes, and else none: what follows from a value is then
  /// more than the value itself.
  std::set<std::string, std::less<>> computed_from() const { return computes_ ? read_keys_ : decltype(read_keys_)(); }

 private:
  void resolve_below(Node& node, const std::string& key);
  std::optional<ReferredText> value_of(const std::string& text, const Mark& mark, const Scope* scope);
  std::optional<ReferredText> named_value(const std::string& name, const Mark& mark, const Scope* scope);
  std::optional<std::string> computed_value(const std::string& text, const Mark& mark, const Scope* scope);
  bool leads_back(const Node* node, const std::string& name, const Mark& mark);
  std::optional<std::string> environment(const std::string& name, const Mark& mark);
  Node* find(std::string_view name);
  static Node* find_below(Node& from, std::string_view name);
  std::optional<std::string> default_of(const std::string& name, const Mark& mark, const Scope* scope);

  struct Link {
    const Node* node = nullptr;
    std::string key;
  };
  Node& root_;
  SourceSet& sources_;
  std::map<std::string, Node, std::less<>> kept_;
  std::vector<Link> chain_;
  std::set<std::string, std::less<>> read_keys_;
  bool computes_ = false;
  std::size_t num_computed_bytes_ = 0;
};

/// The text that reads back as `text`: with `${` written as `$${`.
std::string escape_references(std::string_view text);

}  // namespace trainer
