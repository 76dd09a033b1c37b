#include "engine/config/yaml/compose.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "engine/config/fields/experiment_fields.h"
#include "engine/config/fine_tune.h"
#include "engine/config/model/model_expansion.h"
#include "engine/config/text/utf8_text.h"
#include "engine/config/yaml/image_size.h"
#include "engine/config/yaml/merge.h"
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
  // One byte more than allowed, so that what is too large is known to be. In pieces: most files are small, and a plan
  // tells what the process holds to the page.
  constexpr std::size_t piece = std::size_t{1} << 14;
  std::string text;
  while (stream && text.size() <= most_text_bytes) {
    const std::size_t before = text.size();
    text.resize(std::min(before + piece, most_text_bytes + 1));
    stream.read(text.data() + before, static_cast<std::streamsize>(text.size() - before));
    text.resize(before + static_cast<std::size_t>(stream.gcount()));
  }
  if (stream.bad()) throw ConfigError(fmt::format("cannot read '{}': {}", printable(path), std::strerror(errno)));
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

namespace {

/// "stages.1.optimizer.lr", not "stages.fine_tune.epochs" or "stages.0.fine_tune.epochs".
bool reaches_into_stages(std::string_view key) {
  constexpr std::string_view prefix = "stages.";
  return key.starts_with(prefix) && key.size() > prefix.size() && key[prefix.size()] >= '0' &&
         key[prefix.size()] <= '9' && key.find(".fine_tune") == std::string_view::npos;
}

}  // namespace

MergedConfig merge_config(SourceSet& sources, std::string_view text, const std::string& file_name,
                          const std::vector<std::string>& overrides) {
  MergedConfig merged;
  merged.file_name = file_name;
  merged.root = Composer(sources).read(text, file_name);
  refuse_model_file(merged.root, file_name, sources);
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
  for (auto each = arguments.begin(); each != arguments.end(); ++each) {
    if (each >= first_late && each->key().starts_with("model.layers.")) {
      merged.late_overrides.push_back(overrides[static_cast<std::size_t>(each - arguments.begin())]);
      continue;
    }
    if (reaches_into_stages(each->key())) expand_fine_tune(merged.root, sources);
    each->apply(merged.root);
    expand_short_forms(merged.root);
  }
  merged.stages = take_stages(merged.root, sources);
  return merged;
}

ComposedConfig compose_tree(SourceSet& sources, const MergedConfig& merged, Node root) {
  std::vector<Override> arguments;
  arguments.reserve(merged.late_overrides.size());
  for (const std::string& argument : merged.late_overrides) arguments.emplace_back(argument, sources);
  std::vector<Override*> late;
  late.reserve(arguments.size());
  for (Override& each : arguments) late.push_back(&each);
  const std::string stem = fs::path(merged.file_name).stem().string();
  add_default(root, "name", stem.empty() ? "experiment" : escape_references(stem));
  add_default(root, "output", "runs/${name}");
  ReferenceResolver resolver(root, sources);
  give_image_size(root, resolver, sources);
  ModelExpansion expansion(root, merged.file_name, sources, resolver);
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
  expand_loss_networks(root, merged.file_name, sources, resolver);
  resolver.resolve_all();
  return {std::move(root), resolver.computed_from(), expansion.integer_parameters()};
}

}  // namespace trainer
