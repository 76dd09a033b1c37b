#include "engine/config/yaml/compose.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "engine/config/fields/experiment_fields.h"
#include "engine/config/model/model_expansion.h"
#include "engine/config/text/utf8_text.h"
#include "engine/config/yaml/override.h"
#include "engine/config/yaml/references.h"
#include "engine/config/yaml/short_forms.h"
#include "engine/config/yaml/yaml_scan.h"
#include "engine/config/yaml/yaml_tree.h"
#include "engine/errors.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t deepest_extends = 16;
constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

/// Whether a map is one value: that of a key, but for those that hold names, and a block of the model.
bool is_replaced_whole(const std::string& path) {
  const ExperimentField* field = find_field(path);
  if (field == nullptr) return section_of(path) == "model.blocks";
  const ValueKind kind = field->rule.kind;
  return kind != ValueKind::named_values && kind != ValueKind::blocks && kind != ValueKind::columns &&
         kind != ValueKind::name_maps;
}

/// What the child says goes before what the base says; maps are merged key by key, everything else is replaced, also a
/// map that is the value of a key.
void merge_into(Node& base, Node child, const std::string& path = "") {
  if (child.kind == NodeKind::null && child.absent && base.kind == NodeKind::map) return;
  if (base.kind != NodeKind::map || child.kind != NodeKind::map || is_replaced_whole(path)) {
    base = std::move(child);
    return;
  }
  base.mark = child.mark;
  for (MapEntry& entry : child.entries) {
    const auto same = std::find_if(base.entries.begin(), base.entries.end(),
                                   [&](const MapEntry& each) { return each.key == entry.key; });
    if (same == base.entries.end()) {
      base.entries.push_back(std::move(entry));
    } else {
      same->key_mark = entry.key_mark;
      merge_into(same->value, std::move(entry.value), join_key(path, entry.key));
    }
  }
}

class Composer {
 public:
  explicit Composer(SourceSet& sources) : sources_(sources) {}

  Node read(std::string_view text, const std::string& file_name) {
    Node root = parse_keys(sources_, text, file_name, "at least model: {layers: [...]}", "seed: 1");
    expand_short_forms(root);
    const auto extends = std::find_if(root.entries.begin(), root.entries.end(),
                                      [](const MapEntry& entry) { return entry.key == "extends"; });
    if (extends == root.entries.end()) return root;
    const Node base_name = std::move(extends->value);
    root.entries.erase(extends);
    Node base = read_base(base_name, file_name);
    merge_into(base, std::move(root));
    return base;
  }

 private:
  Node read_base(const Node& name, const std::string& file_name) {
    Node nothing;
    nothing.kind = NodeKind::map;
    if (name.kind != NodeKind::scalar || name.text.empty()) {
      sources_.report(name.mark, "'extends' names one file", "a path relative to this file, such as base.yaml");
      return nothing;
    }
    const std::string path = (fs::path(file_name).parent_path() / name.text).lexically_normal().string();
    const std::string identity = fs::weakly_canonical(fs::absolute(path)).string();
    if (chain_.empty()) chain_.push_back(fs::weakly_canonical(fs::absolute(file_name)).string());
    if (std::find(chain_.begin(), chain_.end(), identity) != chain_.end()) {
      sources_.report(name.mark, fmt::format("'{}' extends itself in the end", shortened(name.text)));
      return nothing;
    }
    if (chain_.size() >= deepest_extends) {
      sources_.report(name.mark, fmt::format("more than {} files extend one another", deepest_extends));
      return nothing;
    }
    std::string text;
    try {
      text = read_config_file(path);
    } catch (const ConfigError& error) {
      sources_.report(name.mark, error.what());
      return nothing;
    }
    chain_.push_back(identity);
    Node base = read(text, path);
    chain_.pop_back();
    return base;
  }

  SourceSet& sources_;
  std::vector<std::string> chain_;
};

void add_default(Node& root, std::string key, std::string text) {
  Node value;
  value.kind = NodeKind::scalar;
  value.text = std::move(text);
  value.mark = root.mark;
  if (Node* present = root.find(key)) {
    if (present->kind == NodeKind::null && !present->absent) *present = std::move(value);
    return;
  }
  root.entries.push_back({std::move(key), root.mark, std::move(value)});
}

}  // namespace

std::string read_config_file(const std::string& path) {
  std::error_code no_error;
  if (fs::is_directory(path, no_error))
    throw ConfigError(fmt::format("cannot read '{}': it is a folder", printable(path)));
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw ConfigError(fmt::format("cannot read '{}': {}", printable(path), std::strerror(errno)));
  // One byte more than allowed, so that what is too large is known to be.
  std::string text(most_text_bytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (stream.bad()) throw ConfigError(fmt::format("cannot read '{}': {}", printable(path), std::strerror(errno)));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  return text;
}

Node parse_keys(SourceSet& sources, std::string_view text, const std::string& file_name, const std::string& if_empty,
                const std::string& example) {
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  const int source = sources.add_file(file_name, std::string(text.substr(0, most_text_bytes)));
  std::optional<Node> root = parse_yaml(sources, source, text);
  if (!root) sources.throw_mistakes();
  if (root->kind == NodeKind::null) {
    sources.report({source, 1, 1, 1}, "the file has no keys", if_empty);
    sources.throw_mistakes();
  }
  if (root->kind != NodeKind::map) {
    sources.report(
        root->mark,
        root->kind == NodeKind::scalar ? "this is text, not keys with values" : "this is a list, not keys with values",
        "keys with values, such as " + example);
    sources.throw_mistakes();
  }
  return std::move(*root);
}

namespace {

/// A file of layers alone has a mistake for each of its keys and parameters, where one says it all.
void refuse_model_file(const Node& root, const std::string& file_name, SourceSet& sources) {
  const Node* layers = root.find("layers");
  if (layers == nullptr || root.find("model") != nullptr || root.find("data") != nullptr) return;
  sources.report(
      layers->mark, "this file describes a model, not an experiment",
      fmt::format("a configuration that uses it by model: {{file: …/{}}}", fs::path(file_name).filename().string()));
  sources.throw_mistakes();
}

}  // namespace

ComposedConfig compose_config(SourceSet& sources, std::string_view text, const std::string& file_name,
                              const std::vector<std::string>& overrides) {
  Node root = Composer(sources).read(text, file_name);
  refuse_model_file(root, file_name, sources);
  std::vector<Override> arguments;
  arguments.reserve(overrides.size());
  for (const std::string& argument : overrides) arguments.emplace_back(argument, sources);
  // What reaches into layers waits until they are written out, or about to be, unless a later argument replaces them
  // all.
  const auto sets_all_layers = [](const Override& each) {
    return each.key() == "model" || each.key() == "model.layers";
  };
  auto first_late = arguments.begin();
  for (auto each = arguments.begin(); each != arguments.end(); ++each)
    if (sets_all_layers(*each)) first_late = each;
  std::vector<Override*> late;
  for (auto each = arguments.begin(); each != arguments.end(); ++each) {
    if (each >= first_late && each->key().starts_with("model.layers.")) {
      late.push_back(&*each);
      continue;
    }
    each->apply(root);
    expand_short_forms(root);
  }
  const std::string stem = fs::path(file_name).stem().string();
  add_default(root, "name", stem.empty() ? "experiment" : escape_references(stem));
  add_default(root, "output", "runs/${name}");
  ReferenceResolver resolver(root, sources);
  ModelExpansion expansion(root, file_name, sources, resolver);
  const bool expands = needs_expansion(root);
  if (expands) expansion.expand(late);
  for (Override* each : late) each->apply(root, &expansion.written());
  const bool sets_layers = !late.empty();
  late.clear();
  if (expands && sets_layers)
    expansion.expand_again();
  else if (!expands && needs_expansion(root))
    expansion.expand(late);
  expansion.apply_map();
  expand_loss_networks(root, file_name, sources, resolver);
  resolver.resolve_all();
  return {std::move(root), resolver.computed_from(), expansion.integer_parameters()};
}

}  // namespace trainer
