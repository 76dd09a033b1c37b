#include "datasets/table/missing_rules.h"

#include <fmt/format.h>

#include "datasets/dataset_format.h"
#include "engine/config/diagnostic.h"
#include "engine/config/fields/column_fields.h"

namespace trainer {
namespace {

ConfigError entry_error(const DataConfig& config, const ColumnConfig& entry, const std::string& message,
                        const std::string& expectation) {
  if (entry.location.file.empty()) return data_config_error(config, message, expectation);
  return located_error(entry.location, message, expectation);
}

}  // namespace

bool suits(MissingRule rule, ColumnKind kind) {
  switch (rule) {
    case MissingRule::mean:
    case MissingRule::median:
      return kind == ColumnKind::number;
    case MissingRule::category:
      return kind == ColumnKind::category;
    case MissingRule::error:
    case MissingRule::mode:
    case MissingRule::drop:
      return true;
  }
  return false;
}

MissingRule missing_rule(const DataConfig& config, const TableColumns& columns, std::size_t column, ColumnKind kind) {
  const ColumnConfig* const entry = columns.entry_of(config, column);
  if (entry != nullptr && entry->missing) {
    if (suits(*entry->missing, kind)) return *entry->missing;
    const bool is_number = kind == ColumnKind::number;
    throw entry_error(
        config, *entry,
        fmt::format("missing: {} is not for {}, which holds {}", missing_choices().name_of(*entry->missing),
                    columns.name_of(column), is_number ? "numbers" : "categories"),
        is_number ? "mean, median, mode, drop or error" : "mode, category, drop or error");
  }
  for (const MissingRule rule : config.missing)
    if (suits(rule, kind)) return rule;
  return MissingRule::error;
}

MissingRule target_missing_rule(const DataConfig& config, const TableColumns& columns, std::size_t column) {
  const ColumnConfig* const entry = columns.entry_of(config, column);
  const bool has_classes = is_categorical(config);
  if (entry != nullptr && entry->kind && (*entry->kind == ColumnKind::category) != has_classes)
    throw entry_error(config, *entry,
                      fmt::format("data.columns says that {} holds {}, and it is the target", columns.name_of(column),
                                  has_classes ? "numbers" : "categories"),
                      fmt::format("data.target_type: {}", has_classes ? "numeric" : "categorical"));
  if (entry != nullptr && entry->missing) {
    const MissingRule rule = *entry->missing;
    if (rule == MissingRule::drop || rule == MissingRule::error) return rule;
    if (rule == MissingRule::category && has_classes) return rule;
    throw entry_error(config, *entry,
                      fmt::format("missing: {} is not for {}, which is the target", missing_choices().name_of(rule),
                                  columns.name_of(column)),
                      has_classes ? "category, drop or error" : "drop or error");
  }
  for (const MissingRule rule : config.missing)
    if (rule == MissingRule::drop) return rule;
  return MissingRule::error;
}

std::string missing_hint(const TableColumns& columns, std::size_t column, std::optional<ColumnKind> kind) {
  const std::string key = columns.key_of(column);
  if (!kind) return fmt::format("write data.columns: {{{}: {{missing: drop}}}} to leave such samples out", key);
  const bool is_number = *kind == ColumnKind::number;
  return fmt::format("write data.columns: {{{}: {{missing: {}}}}}, or {}; data.missing says it for all columns", key,
                     is_number ? "median" : "category", is_number ? "mean, mode or drop" : "mode or drop");
}

}  // namespace trainer
