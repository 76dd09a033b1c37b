#include "datasets/table/table_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "datasets/table/cell_text.h"
#include "datasets/table/delimiter.h"

namespace trainer {

TableReader::TableReader(const DataConfig& config, const std::string& path)
    : file_(path), delimiter_(delimiter_of(config)), has_header_(config.header), records_(file_, delimiter_) {
  pending_ = records_.next();
  if (!pending_) throw DataError(fmt::format("{}: is empty, expected a table", path));
  columns_.count = records_.fields().size();
  if (columns_.count < 2) throw one_column();
  if (has_header_) {
    for (const CsvField& name : records_.fields()) columns_.names.emplace_back(trimmed(name));
    pending_ = false;
  }
  columns_.target = find_target(config, path, columns_);
  if (has_header_ && names_are_numbers())
    throw records_.error(records_.line(), 1,
                         "numbers in place of the columns' names; write data.header: false if this line is a "
                         "sample, or put the names in quotes");
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

double TableReader::number(std::size_t column, double largest) const {
  const CsvField& at = field(column);
  const std::string_view text = trimmed(at);
  if (text.empty()) throw missing_value(column);
  if (const auto value = number_in(text); value && std::abs(*value) <= largest) return *value;
  throw records_.error(at, fmt::format("'{}' in {}, expected a finite number of at most {:g} in size{}",
                                       shortened_cell(text), columns_.name_of(column), largest, hint_for(text)));
}

std::string_view TableReader::label() const {
  const std::string_view text = trimmed(target());
  if (text.empty()) throw missing_value(columns_.target);
  return text;
}

DataError TableReader::no_probability(double value) const {
  return records_.error(target(), fmt::format("{} in {}, expected a target from 0 to 1: loss bce_with_logits takes "
                                              "probabilities",
                                              value, columns_.name_of(columns_.target)));
}

DataError TableReader::unknown_label(std::string_view label, const std::string& train) const {
  return records_.error(target(), fmt::format("class '{}' in {} does not occur in {}", shortened_cell(label),
                                              columns_.name_of(columns_.target), train));
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
    if (column == columns_.target) continue;
    const CsvField& name = field(column);
    const auto number = name.quoted ? std::nullopt : number_in(trimmed(name));
    if (!number) return false;
    are_indices = are_indices && *number == static_cast<double>(column);
  }
  return !are_indices;
}

/// What to write in the configuration where `text`, which is no number, shows how the file is meant to be read.
std::string TableReader::hint_for(std::string_view text) const {
  if (number_in(text)) return "";
  if (const auto other = other_delimiter(text, delimiter_)) return fmt::format("; write data.delimiter: {}", *other);
  if (!has_header_ && num_rows_ == 1) return "; write data.header: true if this line names the columns";
  return "";
}

DataError TableReader::missing_value(std::size_t column) const {
  return records_.error(field(column),
                        fmt::format("no value in {}; fill missing values or remove the row", columns_.name_of(column)));
}

}  // namespace trainer
