#include "engine/config/override_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <variant>

#include "engine/config/fields/experiment_fields.h"
#include "engine/config/fields/stage_fields.h"
#include "engine/config/yaml/node_text.h"
#include "engine/errors.h"

namespace trainer {
namespace {

/// "128MiB": in the largest unit that divides it.
std::string text_of_size(std::int64_t num_bytes) {
  std::string_view unit;
  for (const std::string_view larger : {"KiB", "MiB", "GiB"}) {
    if (num_bytes == 0 || num_bytes % 1024 != 0) break;
    num_bytes /= 1024;
    unit = larger;
  }
  return fmt::format("{}{}", num_bytes, unit);
}

}  // namespace

std::string override_of(std::string_view key, const Experiment& experiment) {
  const ExperimentField* field = find_field(key);
  require_internal(field != nullptr && field->get, "overrides are written of keys with a value");
  if (field->node) {
    // A list stands for its section, whatever stood there.
    const Node list = field->node(experiment);
    if (list.kind != NodeKind::null) return fmt::format("{}={}", section_of(key), flow_text(list));
  }
  const Value held = field->get(experiment);
  if (field->rule.kind == ValueKind::size)
    if (const auto* num_bytes = std::get_if<std::int64_t>(&held))
      return fmt::format("{}={}", key, text_of_size(*num_bytes));
  const Node value = node_of(held);
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
