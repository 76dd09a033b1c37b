#include "datasets/table/table_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "datasets/table/cell_text.h"
#include "datasets/table/delimiter.h"
#include "datasets/table/number_notation.h"

namespace trainer {
namespace {

/// Each is a few hundred bytes while a file is looked through.
constexpr std::size_t most_columns = std::size_t{1} << 20;

}  // namespace

TableReader::TableReader(const DataConfig& config, const std::string& path)
    : file_(path),
      delimiter_(delimiter_of(config)),
      has_header_(config.header),
      records_(file_, delimiter_),
      missing_(config.missing_values) {
  open(path);
  columns_ = choose_columns(config, path, heads_.size(), std::move(names_));
  if (has_header_ && names_are_numbers())
    throw records_.error(records_.line(), 1,
                         "numbers in place of the columns' names; write data.header: false if this line is a "
                         "sample, or put the names in quotes");
}

TableReader::TableReader(const DataConfig& config, const std::string& path, const std::string& train_path,
                         const TableColumns& columns)
    : file_(path),
      delimiter_(delimiter_of(config)),
      has_header_(config.header),
      records_(file_, delimiter_),
      missing_(config.missing_values) {
  open(path);
  if (heads_.size() != columns.count)
    throw DataError(fmt::format("{} has {} columns, but {} has {}", path, heads_.size(), train_path, columns.count));
  for (std::size_t i = 0; i < names_.size(); ++i)
    if (names_[i] != columns.names[i])
      throw error(i, fmt::format("column {} is '{}', but '{}' in {}", i, shortened_cell(names_[i]),
                                 shortened_cell(columns.names[i]), train_path));
  columns_ = columns;
}

void TableReader::open(const std::string& path) {
  pending_ = records_.next();
  if (!pending_) throw DataError(fmt::format("{}: is empty, expected a table", path));
  const auto fields = records_.fields();
  if (fields.size() < 2) throw one_column();
  if (fields.size() > most_columns)
    throw records_.error(fields[most_columns], fmt::format("{} columns, more than {}", fields.size(), most_columns));
  for (const CsvField& field : fields) heads_.push_back({field.line, field.column});
  if (!has_header_) return;
  for (const CsvField& name : fields) names_.emplace_back(trimmed(name));
  pending_ = false;
}

bool TableReader::next() {
  const bool found = pending_ || records_.next();
  pending_ = false;
  if (!found) return false;
  const auto fields = records_.fields();
  if (fields.size() != columns_.count) {
    const CsvField& at = fields[std::min(fields.size() - 1, columns_.count)];
    throw records_.error(at, fmt::format("{} fields, expected {}", fields.size(), columns_.count));
  }
  ++num_rows_;
  return true;
}

std::string_view TableReader::text(std::size_t column) const { return trimmed(field(column)); }

double TableReader::number(std::size_t column, double largest) const {
  const std::string_view cell = text(column);
  if (const auto value = number_in(cell); value && std::abs(*value) <= largest) return *value;
  throw error(column, fmt::format("'{}' in {}, expected a finite number of at most {:g} in size{}",
                                  shortened_cell(cell), columns_.name_of(column), largest, hint_for(cell)));
}

std::string TableReader::located(const TablePlace& place, const std::string& message) const {
  return records_.error(place.line, place.column, message).what();
}

DataError TableReader::one_column() const {
  const auto other = other_delimiter(records_.fields().front().text, delimiter_);
  return records_.error(records_.line(), 1,
                        fmt::format("one column, expected features and a target separated by '{}'; {}", delimiter_,
                                    other ? fmt::format("write data.delimiter: {}", *other) : "see data.delimiter"));
}

/// Whether the header reads like a sample: a number over each feature, other than the columns' own indices. What is
/// in quotes is a name.
bool TableReader::names_are_numbers() const {
  bool are_indices = true;
  for (std::size_t column = 0; column < columns_.count; ++column) {
    if (columns_.is_target(column)) continue;
    const CsvField& name = field(column);
    const auto number = name.quoted ? std::nullopt : number_in(trimmed(name));
    if (!number) return false;
    are_indices = are_indices && *number == static_cast<double>(column);
  }
  return !are_indices;
}

std::string TableReader::hint_for(std::string_view text) const {
  if (number_in(text)) return "";
  const auto other = other_delimiter(text, delimiter_);
  const bool is_decimal_comma = other == "','" && !odd_notation(text).empty();
  if (other && !is_decimal_comma) return fmt::format("; write data.delimiter: {}", *other);
  if (!has_header_ && num_rows_ == 1) return "; write data.header: true if this line names the columns";
  return "";
}

}  // namespace trainer
