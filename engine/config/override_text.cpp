#include "engine/config/override_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/config/fields/experiment_fields.h"
#include "engine/config/fields/stage_fields.h"
#include "engine/config/yaml/node_text.h"
#include "engine/errors.h"

namespace trainer {

std::string override_of(std::string_view key, const Experiment& experiment) {
  const ExperimentField* field = find_field(key);
  require_internal(field != nullptr && field->get, "overrides are written of keys with a value");
  if (field->node) {
    // A list stands for its section, whatever stood there.
    const Node list = field->node(experiment);
    if (list.kind != NodeKind::null) return fmt::format("{}={}", section_of(key), flow_text(list));
  }
  const Node value = node_of(field->get(experiment));
  // Words need quotes only where any text may stand.
  const bool is_word = value.kind == NodeKind::scalar && field->rule.kind != ValueKind::text;
  return fmt::format("{}={}", key, is_word ? value.text : flow_text(value));
}

std::optional<std::string> override_between(std::string_view key, const Experiment& before, const Experiment& after) {
  std::string text = override_of(key, after);
  if (text == override_of(key, before)) return std::nullopt;
  return text;
}

void add_prefix(std::vector<std::string>& overrides, const std::string& prefix) {
  for (std::string& text : overrides) {
    const std::string section = text.substr(0, text.find_first_of(".="));
    const std::vector<SharedKey>& shared = keys_of_all_stages();
    const auto is_of_all = [&](const SharedKey& each) { return each.key == section; };
    if (std::none_of(shared.begin(), shared.end(), is_of_all)) text.insert(0, prefix);
  }
}

}  // namespace trainer
