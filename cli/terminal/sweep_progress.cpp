#include "cli/terminal/sweep_progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "cli/terminal/terminal.h"
#include "engine/report/sweep/sweep_charts.h"
#include "engine/report/sweep/sweep_findings.h"

namespace trainer {
namespace {

std::vector<std::string> key_names_of(const std::vector<SweptKey>& keys) {
  std::vector<std::string> names;
  names.reserve(keys.size());
  for (const SweptKey& key : keys) names.push_back(key.key);
  return names;
}

/// "256 (amp=off), 512 (amp=fp16)": where each series of a sweep ran out of memory; empty where none did, or where
/// more of the first key need not be more memory.
std::string largest_values(const std::vector<SweptKey>& keys, const std::vector<SweepRow>& rows) {
  constexpr std::size_t most_shown = 8;
  const auto is_text = [&](const SweepRow& row) { return !grows_memory(keys.front().key, {row.values.front()}); };
  if (std::any_of(rows.begin(), rows.end(), is_text)) return "";
  const std::vector<SweepSeries> all = series_of(rows);
  if (std::none_of(all.begin(), all.end(), [](const SweepSeries& one) { return one.lacks_memory_somewhere(); }))
    return "";
  std::string text;
  for (std::size_t i = 0; i < all.size() && i < most_shown; ++i) {
    const SweepRow* largest = all[i].largest_that_fits();
    const bool is_all_data =
        largest != nullptr && keys.front().key == "train.batch_size" && largest->has_smaller_batches();
    text += fmt::format("{}{}{}", i > 0 ? ", " : "",
                        largest == nullptr ? "none"
                        : is_all_data      ? fmt::format("all {} samples", *largest->batch_size)
                                           : largest->values.front(),
                        largest == nullptr || is_all_data || all[i].lacks_memory_somewhere() ? "" : " or more");
    for (std::size_t j = 0; j < all[i].others.size(); ++j)
      text += fmt::format("{}{}={}", j == 0 ? " (" : ", ", keys[j + 1].label, all[i].others[j]);
    if (!all[i].others.empty()) text += ')';
  }
  if (all.size() > most_shown) text += fmt::format(", and {} more", all.size() - most_shown);
  return text;
}

}  // namespace

SweepProgress::SweepProgress(Form form, const std::vector<SweptKey>& keys, bool plan_only, const Style& style)
    : form_(form),
      keys_(keys),
      key_names_(key_names_of(keys)),
      plan_only_(plan_only),
      style_(style),
      table_(keys, plan_only, style),
      redraws_(form == Form::table && can_redraw(stdout)) {}

void SweepProgress::begin(const SweepHeader& header, std::size_t num_points, const std::string& folder) {
  num_points_ = num_points;
  if (is_of_tokens(header)) table_.count_tokens();
  if (form_ == Form::json) write(sweep_header_json(header) + '\n');
  if (form_ != Form::table) return;
  const std::string what = fmt::format("{}, {}; allocated{} reserved{} are peaks. In {}:",
                                       format_number_of(static_cast<std::int64_t>(num_points), "point"),
                                       plan_only_ ? "planned and not run" : "a run each", plan_only_ ? " and" : ",",
                                       plan_only_ ? "" : " and used", folder);
  const auto width = static_cast<std::size_t>(style_.width);
  write(wrap(what, width) + '\n');
  if (!table_.left_out().empty())
    write(wrap(fmt::format("Left out at this width: {}; sweep.csv has all.", table_.left_out()), width) + '\n');
  write(table_.titles() + '\n');
}

void SweepProgress::begun(const SweepPoint& point) {
  if (form_ == Form::json) write(sweep_begun_json(point.name) + '\n');
}

void SweepProgress::running(const SweepPoint& point, std::size_t number, const RunEventReader& events, double seconds) {
  if (!redraws_) return;
  const auto now = std::chrono::steady_clock::now();
  if (has_status_ && now - last_draw_ < std::chrono::milliseconds(100)) return;
  last_draw_ = now;
  std::string status = fmt::format("{}/{} {}: ", number, num_points_, point.name);
  if (events.total_steps() > 0)
    status += fmt::format("step {}/{}, ", format_count(events.step()), format_count(events.total_steps()));
  if (events.train_loss()) status += fmt::format("loss {:.4g}, ", *events.train_loss());
  status += format_duration(seconds);
  erase_status();
  write(
      paint(style_, Ink::dim, cut_to_width(status, static_cast<std::size_t>(std::max(terminal_width(stdout) - 1, 1)))));
  has_status_ = true;
}

void SweepProgress::ended(const SweepRow& row, bool kept) {
  if (form_ == Form::json) write(sweep_row_json(key_names_, row, kept) + '\n');
  if (form_ != Form::table) return;
  erase_status();
  write(table_.line(row, kept) + '\n');
}

void SweepProgress::said(const std::string& lines) { write_text(stderr, lines); }

void SweepProgress::noted(const std::string& sentence) {
  write_text(stderr, wrap(sentence, static_cast<std::size_t>(style_.width)) + '\n');
}

void SweepProgress::end(const SweepEnd& end, const std::vector<SweepRow>& rows) {
  if (form_ == Form::json) write(sweep_end_json(end) + '\n');
  if (form_ != Form::table) return;
  erase_status();
  const auto width = static_cast<std::size_t>(style_.width);
  std::string text = sweep_charts(keys_, rows, style_);
  if (!text.empty()) text += '\n';
  const auto say = [&](const std::string& sentence) { text += wrap(sentence, width) + '\n'; };
  if (const std::string largest = largest_values(keys_, rows); !largest.empty())
    say(fmt::format("Largest {} of these that fits: {}", keys_.front().key, largest));
  if (end.num_left_out > 0)
    say(fmt::format("{} left out: larger than one that does not fit.", format_number_of(end.num_left_out, "point")));
  if (end.num_kept > 0) say("Rows marked 'kept' are from before; --overwrite makes them anew.");
  if (!rows.empty()) say(fmt::format("Written to {0}: sweep.svg (plot), sweep.csv, sweep.jsonl", end.folder));
  write(text);
}

void SweepProgress::write(std::string_view text) {
  if (is_closed_) return;
  // JSON has been escaped by its writer, and is not to be changed.
  const bool taken = form_ == Form::json ? write_exactly(stdout, text) : write_text(stdout, text);
  is_closed_ = !taken || std::fflush(stdout) != 0;
}

void SweepProgress::erase_status() {
  if (has_status_ && !is_closed_) is_closed_ = !write_exactly(stdout, erased_line);
  has_status_ = false;
}

}  // namespace trainer
