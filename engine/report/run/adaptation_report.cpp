#include "engine/report/run/adaptation_report.h"

#include <fmt/format.h>

#include "engine/bytes.h"
#include "engine/report/text/change_text.h"
#include "engine/report/text/numbers_text.h"
#include "engine/report/text/shell_words.h"

namespace trainer {
namespace {

std::string failure_place(const OutOfMemoryContext& context) {
  if (context.planned) return "by the plan, before the first step";
  if (context.step == 0 && context.phase != Phase::eval) return "while loading";
  if (context.phase == Phase::eval)
    return fmt::format("in the evaluation after step {} ({})", format_count(context.step), context.layer);
  return fmt::format("in step {} ({} of {})", format_count(context.step), name_of(context.phase), context.layer);
}

std::string step_time_of(const Change& change) {
  if (change.relative_step_time > 0.97 && change.relative_step_time < 1.03) return "about the same time a step";
  return fmt::format("{:.2g} times the time a step", change.relative_step_time);
}

std::string capacities(const AdaptEvent& event) {
  const std::int64_t real = event.change.capacity;
  if (real == event.capacity) return fmt::format("{} are not enough", format_bytes(real));
  return fmt::format("{} are there instead of {}", format_bytes(real), format_bytes(event.capacity));
}

}  // namespace

std::string adaptation_message(const AdaptEvent& event) {
  return fmt::format("out of memory {}: {}; goes on with {}", failure_place(event.context), capacities(event),
                     event.change.set.empty() ? "the same settings" : shell_words(event.change.set));
}

std::string adaptation_report(const AdaptEvent& event, const Style& style) {
  const auto width = static_cast<std::size_t>(style.width);
  const Change& change = event.change;
  std::string text = paint(style, Ink::yellow, "Adapted:") + ' ';
  text += wrap(fmt::format("memory ran out {}; {}. The run goes on from step {} with", failure_place(event.context),
                           capacities(event), format_count(event.step)),
               width - 9) +
          "\n  ";
  text += change.set.empty() ? "the same settings"
                             : paint(style, Ink::bold, folded_shell_words(change.set, width - 2, "  "));
  text += "\n  " + wrap(change_text(change), width - 2, "  ") + "\n  ";
  text += wrap(fmt::format("peak {} reserved of {}; {}; {}", format_bytes(change.peak_reserved),
                           format_bytes(change.capacity), numbers_text(change.numbers), step_time_of(change)),
               width - 2, "  ");
  return text + '\n';
}

}  // namespace trainer
