#include "engine/config/fields/column_fields.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "engine/config/fields/field_reader.h"
#include "engine/config/fields/node_field.h"

namespace trainer {
namespace {

const std::vector<EnumChoice<MissingRule>>& missing_words() {
  static const std::vector<EnumChoice<MissingRule>> words = {
      {"error", MissingRule::error, "the file is refused, with the place"},
      {"mean", MissingRule::mean, "of numbers, the mean of the training samples", {"average"}},
      {"median", MissingRule::median, "of numbers, their median"},
      {"mode",
       MissingRule::mode,
       "what is most frequent in training, the first of several",
       {"most_frequent", "most_common"}},
      {"category", MissingRule::category, "of categories, one more of them", {"indicator", "dummy_na"}},
      {"drop", MissingRule::drop, "the sample is left out", {"dropna", "remove", "skip"}}};
  return words;
}

std::optional<ColumnConfig> read_column(const MapEntry& entry, SourceSet& sources) {
  ColumnConfig column;
  column.name = entry.key;
  column.location = sources.location(entry.key_mark);
  if (entry.value.kind == NodeKind::map) {
    FieldReader(column_fields(), column, sources).read(entry.value);
    return column;
  }
  const auto kind = read_value(entry.value, column_kinds(), "data.columns." + entry.key, sources);
  if (!kind) return std::nullopt;
  column.kind = column_kinds().value_of(std::get<std::string>(*kind));
  return column;
}

void read_columns(Experiment& experiment, const Node& node, SourceSet& sources) {
  experiment.data.columns.clear();
  if (node.kind != NodeKind::map) {
    sources.report(node.mark, "'data.columns' is not a map", expectation_of(named_columns()));
    return;
  }
  for (const MapEntry& entry : node.entries) {
    if (entry.value.kind == NodeKind::null && !entry.value.absent) continue;
    if (auto column = read_column(entry, sources)) experiment.data.columns.push_back(std::move(*column));
  }
}

Node node_of_columns(const Experiment& experiment) {
  Node map;
  if (experiment.data.columns.empty()) return map;
  map.kind = NodeKind::map;
  for (const ColumnConfig& column : experiment.data.columns) {
    Node keys;
    keys.kind = NodeKind::map;
    for (const Field<ColumnConfig>& field : column_fields())
      if (Node value = node_of(field.get(column)); value.kind != NodeKind::null)
        keys.entries.push_back({field.key, {}, std::move(value)});
    const bool is_word = keys.entries.size() == 1 && column.kind;
    Node value = is_word ? std::move(keys.entries.front().value) : std::move(keys);
    map.entries.push_back({column.name, {}, std::move(value)});
  }
  return map;
}

}  // namespace

const EnumRule<MissingRule>& missing_choices() {
  static const EnumRule<MissingRule> rule = choices<MissingRule>(missing_words());
  return rule;
}

const EnumRule<ColumnKind>& column_kinds() {
  static const EnumRule<ColumnKind> rule =
      choice<ColumnKind>({{"number", ColumnKind::number, "a feature of its own", {"numeric", "float", "int", "real"}},
                          {"category",
                           ColumnKind::category,
                           "a feature for each text, 1 where the sample has it and else 0",
                           {"categorical", "text", "string", "object", "one_hot", "onehot", "nominal"}}});
  return rule;
}

const std::vector<Field<ColumnConfig>>& column_fields() {
  static const std::vector<Field<ColumnConfig>> fields = {
      field<ColumnConfig>(
          "type", [](auto& column) -> auto& { return column.kind; }, column_kinds(), "What the column holds")
          .defaults_to("number where all its training values are, else category"),
      field<ColumnConfig>(
          "missing", [](auto& column) -> auto& { return column.missing; }, choice<MissingRule>(missing_words()),
          "What becomes of cells without a value")
          .defaults_to("as `data.missing`")};
  return fields;
}

ExperimentField columns_field() {
  ExperimentField result = node_field<Experiment>(
      "data.columns", named_columns(),
      "What single columns are, by name, by number from 0 or by pattern: a kind, or a map of `type` (number or "
      "category) and `missing`",
      [](Experiment& experiment) { experiment.data.columns.clear(); }, read_columns, node_of_columns);
  result.default_text = "number where all training values are, else category";
  return result;
}

}  // namespace trainer
