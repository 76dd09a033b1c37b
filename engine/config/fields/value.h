#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/config/experiment.h"
#include "engine/config/fields/rule.h"
#include "engine/config/layer_spec.h"
#include "engine/config/text_pair.h"
#include "engine/config/yaml/source_set.h"

namespace trainer {

/// "100" optimizer steps, or "10ep".
struct Interval {
  std::int64_t count = 0;
  bool in_epochs = false;

  friend bool operator==(const Interval&, const Interval&) = default;
};

/// "{every: 2}": a map of one key.
struct Keyed {
  std::string key;
  std::variant<std::int64_t, std::vector<std::string>> value;

  friend bool operator==(const Keyed&, const Keyed&) = default;
};

/// A field's value on its way between YAML and its struct; monostate: not given, and nothing to show.
using Value = std::variant<std::monostate, bool, std::int64_t, double, std::string, Interval, Pair, Sides,
                           std::vector<std::int64_t>, std::vector<double>, std::vector<std::string>,
                           std::vector<TextPair>, Keyed, GroupNumbers>;

/// Reads a node by a rule. Reports against `key` and returns nothing where it does not hold.
std::optional<Value> read_value(const Node& node, const Rule& rule, std::string_view key, SourceSet& sources);

/// The node that read_value() reads back to the same value; null for monostate.
Node node_of(const Value& value);

}  // namespace trainer
