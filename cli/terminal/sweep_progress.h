#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/report/sweep/sweep_json.h"
#include "engine/report/sweep/sweep_table.h"
#include "engine/report/text/style.h"
#include "engine/sweep/sweep.h"

namespace trainer {

/// A sweep on stdout: a table that grows by a line whenever a point ends, below it, on a terminal, what runs now; or
/// JSON Lines; or nothing. Goes on silently once nobody reads it any more.
class SweepProgress final : public SweepObserver {
 public:
  enum class Form : std::uint8_t { table, json, none };
  SweepProgress(Form form, const std::vector<SweptKey>& keys, bool plan_only, const Style& style);

  void begin(const SweepHeader& header, std::size_t num_points, const std::string& folder) override;
  void begun(const SweepPoint& point) override;
  /// Redrawn at most ten times a second.
  void running(const SweepPoint& point, std::size_t number, const RunEventReader& events, double seconds) override;
  void ended(const SweepRow& row, bool kept) override;
  void said(const std::string& lines) override;
  void noted(const std::string& sentence) override;
  void end(const SweepEnd& end, const std::vector<SweepRow>& rows) override;

 private:
  void write(std::string_view text);
  void erase_status();

  Form form_;
  std::vector<SweptKey> keys_;
  std::vector<std::string> key_names_;
  bool plan_only_;
  Style style_;
  SweepTable table_;
  std::size_t num_points_ = 0;
  bool redraws_ = false, has_status_ = false, is_closed_ = false;
  std::chrono::steady_clock::time_point last_draw_;
};

}  // namespace trainer
