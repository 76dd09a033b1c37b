#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/config/fields/field_table.h"
#include "engine/config/fields/given_keys.h"
#include "engine/config/layer_reader.h"
#include "engine/config/text/absent_feature.h"
#include "engine/config/text/suggestion.h"
#include "engine/config/text/utf8_text.h"

namespace trainer {

/// Fills a struct from a tree by its fields. Reports every key that is unknown, misplaced, of the wrong type or out of
/// range.
template <class Owner>
class FieldReader {
 public:
  FieldReader(const std::vector<Field<Owner>>& fields, Owner& owner, SourceSet& sources)
      : fields_(fields), owner_(owner), sources_(sources) {}

  GivenKeys read(const Node& root) {
    given_.root = root.mark;
    read_section(root, "");
    return std::move(given_);
  }

 private:
  void read_section(const Node& node, const std::string& section) {
    for (const MapEntry& entry : node.entries) {
      const std::string key = join_key(section, entry.key);
      if (const Field<Owner>* field = find_field(fields_, key)) {
        read_field(*field, entry);
      } else if (!entry.key.empty() && !keys_of_section(fields_, key).empty()) {
        read_subsection(key, entry);
      } else {
        report_unknown(section, entry);
      }
    }
  }

  void read_subsection(const std::string& key, const MapEntry& entry) {
    given_.marks[key] = entry.key_mark;
    const Field<Owner>* const terms = find_field(fields_, join_key(key, "terms"));
    if (entry.value.kind == NodeKind::map) {
      read_section(entry.value, key);
    } else if (entry.value.kind == NodeKind::sequence && terms != nullptr) {
      read_field(*terms, entry);
    } else if (entry.value.kind != NodeKind::null) {
      given_.broken.insert(key);
      sources_.report(entry.value.mark, fmt::format("'{}' is a section", key),
                      fmt::format("keys with values: {}", fmt::join(keys_of_section(fields_, key), ", ")));
    }
  }

  void read_field(const Field<Owner>& field, const MapEntry& entry) {
    const Node& node = entry.value;
    if (node.kind == NodeKind::null && !node.absent) return;
    given_.marks[field.key] = entry.key_mark;
    if (field.layers) {
      field.layers(owner_) = read_layers(node, field.key, sources_);
      if (node.kind != NodeKind::sequence) given_.broken.insert(field.key);
    } else if (field.read) {
      field.read(owner_, node, sources_);
    } else if (const auto value = read_value(node, field.rule, field.key, sources_)) {
      field.set(owner_, *value);
    } else {
      given_.broken.insert(field.key);
    }
  }

  void report_unknown(const std::string& section, const MapEntry& entry) {
    const std::string where = section.empty() ? "" : fmt::format(" in '{}'", section);
    if (const std::string_view instead = absent_feature(entry.key); !instead.empty()) {
      sources_.report(entry.key_mark, fmt::format("there is no key '{}'{}: {}", entry.key, where, instead),
                      "nothing here; configs/LIMITS.md tells what trainer does not do");
      return;
    }
    const std::vector<std::string> keys = keys_of_section(fields_, section);
    std::vector<Field<Owner>> siblings;
    for (const Field<Owner>& field : fields_) {
      if (section_of(field.key) == section) siblings.push_back(field);
    }
    std::string suggestion = suggest_key(entry.key, siblings, keys);
    if (!suggestion.empty() && section_of(suggestion) != section) suggestion = join_key(section, suggestion);
    if (suggestion.empty()) suggestion = suggest_elsewhere(entry.key);
    sources_.report(entry.key_mark, fmt::format("unknown key '{}'{}", shortened(entry.key), where),
                    fmt::format("one of {}", fmt::join(keys, ", ")), suggestion);
  }

  /// A right key in the wrong section.
  std::string suggest_elsewhere(const std::string& word) const {
    for (const Field<Owner>& field : fields_) {
      if (last_of(field.key) == word) return field.key;
    }
    return suggest_key(word, fields_, {});
  }

  const std::vector<Field<Owner>>& fields_;
  Owner& owner_;
  SourceSet& sources_;
  GivenKeys given_;
};

}  // namespace trainer
