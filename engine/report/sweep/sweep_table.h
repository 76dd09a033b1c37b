#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/config/sweep/sweep_grid.h"
#include "engine/report/sweep/sweep_row.h"
#include "engine/report/text/style.h"

namespace trainer {

/// A sweep as lines that can be shown one by one, since their widths are known before the first point ends. Where they
/// would be wider than the style allows, the columns that matter least are left out; sweep.csv has all.
class SweepTable {
 public:
  SweepTable(const std::vector<SweptKey>& keys, bool plan_only, const Style& style);

  /// From here on speeds are told in tokens.
  void count_tokens();
  /// Without a newline.
  std::string titles() const;
  /// Titles of the columns for which the style leaves no room; empty: there are all.
  const std::string& left_out() const { return left_out_; }
  /// `kept`: the row is from before this sweep.
  std::string line(const SweepRow& row, bool kept) const;

 private:
  enum class What : std::uint8_t {
    value,
    status,
    allocated,
    reserved,
    category,
    used,
    speed,
    step,
    loss,
    accuracy,
    seconds,
    kept
  };
  struct Column {
    What what = What::value;
    std::string title{};
    std::size_t width = 0;
    std::size_t key = 0;  ///< of a value
    Category category = Category::parameter;
  };
  std::string cell(const Column& column, const SweepRow& row, bool kept) const;

  std::vector<Column> columns_;
  std::string left_out_;
  Style style_;
  bool counts_tokens_ = false;
};

/// All rows as CSV (RFC 4180, lines end with \n), a column for each key and figure; the field is empty where a figure
/// is not known.
std::string sweep_csv(const std::vector<std::string>& keys, const std::vector<SweepRow>& rows);

/// Rows ordered by their values, the first key slowest.
std::vector<SweepRow> sorted_rows(std::vector<SweepRow> rows);

}  // namespace trainer
