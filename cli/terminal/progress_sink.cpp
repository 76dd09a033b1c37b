#include "cli/terminal/progress_sink.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cli/terminal/terminal.h"
#include "engine/bytes.h"
#include "engine/config/text/utf8_text.h"
#include "engine/report/run/metrics_text.h"
#include "engine/report/run/preprocessing_text.h"
#include "engine/report/run/run_summary.h"
#include "engine/report/run/waiting_text.h"
#include "engine/report/run/weights_report.h"
#include "engine/report/text/layout_text.h"
#include "engine/report/text/progress_text.h"
#include "engine/report/text/shell_words.h"

namespace trainer {
namespace {

double seconds_since(std::chrono::steady_clock::time_point time) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - time).count();
}

std::string bar(double share, std::size_t columns) {
  const auto filled = static_cast<std::size_t>(std::lround(share * static_cast<double>(columns)));
  std::string text;
  for (std::size_t i = 0; i < columns; ++i) text += i < filled ? "█" : "░";
  return text;
}

std::string allocator_note(const StartEvent& event) {
  if (event.allocator == AllocatorKind::planned) return ", memory.allocator planned";
  if (event.first_placed_step < 0) return "";
  return fmt::format(", planned places from step {} on", format_count(event.first_placed_step));
}

}  // namespace

std::int64_t sensible_log_interval(std::int64_t total, std::int64_t lines) {
  const std::int64_t wanted = total / std::max<std::int64_t>(lines, 1);
  for (std::int64_t power = 1;; power *= 10)
    for (const std::int64_t factor : {1, 2, 5})
      if (power * factor >= wanted) return power * factor;
}

void ProgressSink::take(const Event& event) {
  std::visit([this](const auto& told) { show(told); }, event);
}

void ProgressSink::show(const StartEvent& event) {
  start_ = event;
  start_time_ = last_line_ = Clock::now();
  log_every_ =
      options_.log_every > 0 ? options_.log_every : sensible_log_interval(event.total_steps - event.first_step + 1);
  write(wrap(fmt::format(
                 "{} on {} ({}): {}, {}, capacity {}{}", event.experiment != nullptr ? event.experiment->name : "run",
                 event.device_kind, event.device_name, format_number_of(event.num_parameters, "parameter"),
                 format_number_of(event.total_steps, "step"), format_bytes(event.capacity), allocator_note(event)),
             static_cast<std::size_t>(options_.style.width)) +
        '\n');
  if (event.experiment != nullptr && total_ranks(event.experiment->parallel) > 1)
    write(fmt::format("{}, over {}; memory is that of rank 0\n", layout_text(event.experiment->parallel),
                      carrier_name(event.carrier.value_or(Carrier::tcp))));
  if (const std::string text = preprocessing_text(event.preprocessing); !text.empty())
    write(wrap_lines(text, static_cast<std::size_t>(options_.style.width)) + '\n');
  if (event.weights) {
    write(
        wrap(fmt::format("weights {}", weights_line(*event.weights)), static_cast<std::size_t>(options_.style.width)) +
        '\n' + weights_table(*event.weights, options_.shows_all_weights, options_.style));
  }
  write(frozen_text(event.frozen, options_.shows_all_weights, options_.style));
  if (!event.skipped_checkpoint.empty())
    write(wrap("passed over: " + event.skipped_checkpoint, static_cast<std::size_t>(options_.style.width)) + '\n');
  if (options_.finds_batch_size && event.experiment != nullptr)
    write(fmt::format("train.batch_size: auto is {}, {}\n",
                      format_count(event.experiment->train.batch_size.number().value()),
                      event.first_step > 1 ? "as when the run began" : "the largest that fits"));
  if (event.first_step > 1) write(fmt::format("resumed after step {}\n", format_count(event.first_step - 1)));
  if (!event.adapted.empty())
    write(wrap("goes on as adapted before: " + shell_words(event.adapted),
               static_cast<std::size_t>(options_.style.width)) +
          '\n');
  flush();
}

void ProgressSink::show(const StageEvent& event) {
  leave_panel();
  start_.first_step = event.first_step;
  start_.total_steps = event.last_step;
  start_time_ = last_line_ = Clock::now();
  begin_interval();
  if (options_.log_every == 0) log_every_ = sensible_log_interval(event.last_step - event.first_step + 1);
  const auto width = static_cast<std::size_t>(options_.style.width);
  std::string text = fmt::format("stage {} of {}, {}: ", event.index + 1, event.count, event.name);
  text += event.first_step > event.last_step
              ? "no steps"
              : fmt::format("steps {} to {} in batches of {}", format_count(event.first_step),
                            format_count(event.last_step), format_count(event.batch_size));
  text += event.num_trained == event.num_parameters ? ", all parameters trained"
                                                    : fmt::format(", {} of {} trained", format_count(event.num_trained),
                                                                  format_number_of(event.num_parameters, "parameter"));
  if (event.planned_peak_reserved > 0)
    text += fmt::format(", planned to reserve {} of {}", format_bytes(event.planned_peak_reserved),
                        format_bytes(event.capacity));
  write('\n' + paint(options_.style, Ink::bold, wrap(text, width)) + '\n');
  const auto add = [&](const std::string& line) { write("  " + wrap(line, width - 2, "  ") + '\n'); };
  if (event.purge)
    add(fmt::format("{}: {} reserved, now {}; used {}, now {} ({} before the first stage)",
                    event.purge->reserved_after > 0 ? "not purged"
                    : event.purge->to_fit           ? "purged, since it does not fit beside what is cached"
                                                    : "purged",
                    format_bytes(event.purge->reserved_before), format_bytes(event.purge->reserved_after),
                    format_bytes(event.purge->used_before), format_bytes(event.purge->used_after),
                    format_bytes(event.purge->used_baseline)));
  if (event.num_continued > 0 || event.num_begun > 0)
    add(fmt::format("optimizer: {}",
                    event.num_continued == 0 ? "its state begins anew"
                    : event.num_begun == 0
                        ? "its state goes on"
                        : fmt::format("its state goes on for {} and begins for {}",
                                      format_number_of(event.num_continued, "tensor"), format_count(event.num_begun))));
  titled_ = false;
  flush();
}

void ProgressSink::show(const StepEvent& event) {
  last_step_ = event;
  losses_.add(event.step, event.loss);
  counted_ += event.tokens ? event.tokens->trained : event.samples;
  seconds_ += event.seconds;
  data_seconds_ += event.data_seconds;
  run_seconds_ += event.seconds;
  run_data_seconds_ += event.data_seconds;
  peak_allocated_ = std::max(peak_allocated_, event.memory.step.peak_allocated);
  const bool is_last = event.step == start_.total_steps;
  const bool by_count = event.step % log_every_ == 0 || event.step == start_.first_step || is_last;
  const bool lines_wanted = !options_.redraws || options_.log_every > 0;
  const bool by_time = options_.log_every == 0 && seconds_since(last_line_) >= 10;
  if (lines_wanted && (by_count || by_time)) {
    print_line(step_line(event));
    begin_interval();
    last_line_ = Clock::now();
  }
  // Ten drawings a second are as many as one can follow.
  if (options_.redraws && (is_last || panel_lines_ == 0 || seconds_since(last_draw_) >= 0.1)) draw(event);
}

void ProgressSink::show(const EvalEvent& event) {
  std::string line =
      fmt::format("  evaluation {}after step {} (epoch {}): loss {}", event.averaged ? "of the average " : "",
                  format_count(event.step), event.epoch, format_loss(event.loss));
  if (event.terms.count > 0) line += fmt::format(" ({})", terms_text(event.terms));
  if (const std::string metrics = metrics_text(event.accuracy, event.top5, event.counted); !metrics.empty())
    line += ", " + metrics;
  if (!event.target_unit.empty()) line += fmt::format(", in {}", event.target_unit);
  if (event.best) line += ", best so far";
  erase_panel();
  write(paint(options_.style, Ink::cyan, wrap_lines(line, static_cast<std::size_t>(options_.style.width))) + '\n');
  if (options_.redraws && last_step_.step > 0) draw(last_step_);
  flush();
}

void ProgressSink::show(const EndEvent& event) {
  leave_panel();
  // What failed before its first step has said why, and there is nothing to sum up.
  if (event.status == "failed" && last_step_.step == 0 && event.failed_events.empty()) return;
  if (const std::string curve = losses_.text(options_.style); !curve.empty()) write('\n' + curve);
  write(run_summary(event, start_.experiment != nullptr ? start_.experiment->checkpoint.best : Metric::loss,
                    options_.event_file, options_.style));
  flush();
}

std::string ProgressSink::step_line(const StepEvent& event) const {
  const StepMemory& memory = event.memory.step;
  const std::string share = waiting_share(data_seconds_, seconds_, 0.1);
  return fmt::format("{:>13} {:>5} {:>10} {:>9.3g} {:>10} {:>11} {:>11} {:>11} {:>11}{}{}",
                     fmt::format("{}/{}", event.step, start_.total_steps), event.epoch, format_loss(event.loss),
                     event.learning_rate, format_rate(static_cast<double>(counted_), seconds_),
                     format_bytes(memory.allocated), format_bytes(peak_allocated_), format_bytes(memory.reserved),
                     format_bytes(event.memory.device_used),
                     event.tokens ? fmt::format(" {:>14}", format_count(event.tokens->seen)) : "",
                     share.empty() ? "" : fmt::format("  waited for samples {}", share));
}

void ProgressSink::begin_interval() {
  counted_ = peak_allocated_ = 0;
  seconds_ = data_seconds_ = 0;
}

void ProgressSink::print_line(const std::string& line) {
  erase_panel();
  if (!titled_) {
    write(paint(options_.style, Ink::bold,
                fmt::format("{:>13} {:>5} {:>10} {:>9} {:>10} {:>11} {:>11} {:>11} {:>11}{}", "step", "epoch", "loss",
                            "lr", fmt::format("{}/s", counted_name()), "allocated", "(peak)", "reserved", "used",
                            start_.tokens_per_sample > 0 ? fmt::format(" {:>14}", "tokens seen") : "")) +
          '\n');
    titled_ = true;
  }
  write(line + '\n');
  flush();
}

std::string ProgressSink::panel(const StepEvent& event) const {
  const auto width = static_cast<std::size_t>(std::max(terminal_width(stdout) - 1, 1));
  const std::int64_t total = std::max<std::int64_t>(start_.total_steps, 1);
  const double share = static_cast<double>(event.step) / static_cast<double>(total);
  const std::int64_t done = event.step - start_.first_step + 1;
  const double remaining = seconds_since(start_time_) / static_cast<double>(std::max<std::int64_t>(done, 1)) *
                           static_cast<double>(total - event.step);
  const std::string before = fmt::format(" step {}/{} ", event.step, start_.total_steps);
  const std::string after =
      fmt::format(" {:3.0f} % eta {}  loss {}  lr {:.3g}  {} {}/s", 100 * share, format_clock(remaining),
                  format_loss(event.loss), event.learning_rate, shown_rate_, counted_name());
  const std::size_t used = display_width(before) + display_width(after);
  const std::size_t bar_columns = width > used + 4 ? std::min<std::size_t>(width - used, 40) : 0;
  const std::string first = cut_to_width(before + bar(share, bar_columns) + after, width);

  const StepMemory& memory = event.memory.step;
  const std::string second = cut_to_width(
      fmt::format(" allocated {} (peak {})  reserved {}  used {}", format_bytes(memory.allocated),
                  format_bytes(shown_peak_), format_bytes(memory.reserved), format_bytes(event.memory.device_used)),
      width);
  std::string text = first + '\n' + second + '\n';
  if (const std::string waited = waiting_share(run_data_seconds_, run_seconds_, 1); !waited.empty())
    text += cut_to_width(fmt::format(" waited for samples {} of the time", waited), width) + '\n';
  return text;
}

void ProgressSink::draw(const StepEvent& event) {
  erase_panel();
  if (seconds_ > 0) {
    shown_rate_ = format_rate(static_cast<double>(counted_), seconds_);
    shown_peak_ = peak_allocated_;
  }
  const std::string text = panel(event);
  write(text);
  flush();
  panel_lines_ = static_cast<int>(std::ranges::count(text, '\n'));
  last_draw_ = Clock::now();
  if (options_.log_every == 0) begin_interval();
}

void ProgressSink::erase_panel() {
  // The note of the signal handler stands below the panel now.
  if (!interrupted_ && options_.interruption != nullptr && options_.interruption->requests > 0) {
    interrupted_ = true;
    panel_lines_ = 0;
  }
  // Up one line at a time, each cleared: leaves the cursor where the panel began.
  for (; panel_lines_ > 0; --panel_lines_) move(erased_line_above);
  if (options_.redraws) move(line_start);
}

void ProgressSink::write(std::string_view text) {
  if (!is_closed_) is_closed_ = !write_text(stdout, text);
}

void ProgressSink::move(std::string_view sequence) {
  if (!is_closed_) is_closed_ = !write_exactly(stdout, sequence);
}

void ProgressSink::flush() {
  if (!is_closed_) is_closed_ = std::fflush(stdout) != 0;
}

void ProgressSink::leave_panel() {
  if (panel_lines_ > 0 && last_step_.step > 0) draw(last_step_);
  panel_lines_ = 0;
}

}  // namespace trainer
