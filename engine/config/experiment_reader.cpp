#include "engine/config/experiment_reader.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/config/experiment_fields.h"
#include "engine/config/layer_reader.h"
#include "engine/config/suggestion.h"
#include "engine/config/utf8_text.h"

namespace trainer {
namespace {

class ExperimentReader {
 public:
  ExperimentReader(Experiment& experiment, SourceSet& sources) : experiment_(experiment), sources_(sources) {}

  GivenKeys read(const Node& root) {
    given_.root = root.mark;
    read_section(root, "");
    fill_type_defaults();
    check_types();
    return std::move(given_);
  }

 private:
  void read_section(const Node& node, const std::string& section) {
    for (const MapEntry& entry : node.entries) {
      const std::string key = join_key(section, entry.key);
      if (const ExperimentField* field = find_field(key)) {
        read_field(*field, entry);
      } else if (find_section(key) != nullptr && !entry.key.empty()) {
        read_subsection(key, entry);
      } else {
        report_unknown(section, entry);
      }
    }
  }

  void read_subsection(const std::string& key, const MapEntry& entry) {
    given_.marks[key] = entry.key_mark;
    if (entry.value.kind == NodeKind::map) {
      read_section(entry.value, key);
    } else if (entry.value.kind != NodeKind::null) {
      given_.broken.insert(key);
      sources_.report(entry.value.mark, fmt::format("'{}' is a section", key),
                      fmt::format("keys with values: {}", fmt::join(keys_of_section(key), ", ")));
    }
  }

  void read_field(const ExperimentField& field, const MapEntry& entry) {
    const Node& node = entry.value;
    if (node.kind == NodeKind::null && !node.absent) return;
    given_.marks[field.key] = entry.key_mark;
    if (field.layers) {
      std::vector<LayerSpec> layers = read_layers(node, field.key, sources_);
      field.layers(experiment_) = std::move(layers);
      if (node.kind != NodeKind::sequence) given_.broken.insert(field.key);
      return;
    }
    given_.names_warmup = given_.names_warmup || (field.key == "schedule.type" && node.text == "warmup");
    if (const auto value = read_value(node, field.rule, field.key, sources_)) {
      field.set(experiment_, *value);
    } else {
      given_.broken.insert(field.key);
    }
  }

  void report_unknown(const std::string& section, const MapEntry& entry) {
    const std::vector<std::string> keys = keys_of_section(section);
    std::vector<ExperimentField> siblings;
    for (const ExperimentField& field : experiment_fields()) {
      if (section_of(field.key) == section) siblings.push_back(field);
    }
    std::string suggestion = suggest_key(entry.key, siblings, keys);
    if (!section.empty() && section_of(suggestion) == section) suggestion.erase(0, section.size() + 1);
    if (suggestion.empty()) suggestion = suggest_elsewhere(entry.key);
    const std::string where = section.empty() ? "" : fmt::format(" in '{}'", section);
    sources_.report(entry.key_mark, fmt::format("unknown key '{}'{}", shortened(entry.key), where),
                    fmt::format("one of {}", fmt::join(keys, ", ")), suggestion);
  }

  /// A right key in the wrong section.
  static std::string suggest_elsewhere(const std::string& word) {
    for (const ExperimentField& field : experiment_fields()) {
      if (std::string_view(field.key).substr(section_of(field.key).size() +
                                             (field.key.find('.') != std::string::npos ? 1 : 0)) == word) {
        return field.key;
      }
    }
    return suggest_key(word, experiment_fields(), {});
  }

  std::string type_of(std::string_view key) const {
    const ExperimentField* type = find_field(fmt::format("{}.type", key.substr(0, key.find('.'))));
    return type == nullptr ? "" : std::get<std::string>(type->get(experiment_));
  }

  bool is_type_broken(std::string_view key) const {
    return given_.broken.contains(fmt::format("{}.type", key.substr(0, key.find('.'))));
  }

  void fill_type_defaults() {
    for (const ExperimentField& field : experiment_fields()) {
      if (field.type_defaults.empty() || given_.has(field.key)) continue;
      const std::string type = type_of(field.key);
      for (const auto& [each, text] : field.type_defaults) {
        Node node;
        node.kind = NodeKind::scalar;
        node.text = text;
        if (each == type) field.set(experiment_, *read_value(node, field.rule, field.key, sources_));
      }
    }
  }

  void check_types() {
    for (const ExperimentField& field : experiment_fields()) {
      if (field.only_for.empty() || !given_.has(field.key) || is_type_broken(field.key)) continue;
      const std::string type = type_of(field.key);
      if (field.applies_to(type)) continue;
      sources_.report(
          given_.mark(field.key), fmt::format("'{}' does not apply to '{}'", field.key, type),
          fmt::format("only with type {}; remove it, or set {}=null", fmt::join(field.only_for, ", "), field.key));
      given_.broken.insert(field.key);
    }
  }

  Experiment& experiment_;
  SourceSet& sources_;
  GivenKeys given_;
};

}  // namespace

Mark GivenKeys::mark(std::string_view key) const {
  for (;;) {
    if (const auto found = marks.find(key); found != marks.end()) return found->second;
    if (key.empty()) return root;
    key = section_of(key);
  }
}

GivenKeys read_experiment(const Node& root, Experiment& experiment, SourceSet& sources) {
  return ExperimentReader(experiment, sources).read(root);
}

}  // namespace trainer
