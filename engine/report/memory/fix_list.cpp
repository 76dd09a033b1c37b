#include "engine/report/memory/fix_list.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/bytes.h"
#include "engine/report/text/change_text.h"
#include "engine/report/text/numbers_text.h"
#include "engine/report/text/shell_words.h"

namespace trainer {
namespace {

std::string time_of(const Change& fix) {
  if (fix.relative_step_time > 0.97 && fix.relative_step_time < 1.03) return "about the same time a sample";
  return fmt::format("{:.2f} x the time a sample", fix.relative_step_time);
}

}  // namespace

std::string fix_list(const std::vector<Change>& fixes, const Style& style, std::size_t most) {
  const auto width = static_cast<std::size_t>(style.width);
  if (fixes.empty()) return "  No change was found that fits: use a smaller model, or more memory.\n";
  std::string text;
  for (std::size_t i = 0; i < std::min(most, fixes.size()); ++i) {
    const Change& fix = fixes[i];
    const std::string number = fmt::format("  {}. ", i + 1);
    const std::string indent(number.size(), ' ');
    text += number + paint(style, Ink::bold, folded_shell_words(fix.set, width - number.size(), indent)) + '\n';
    text += indent + wrap(change_text(fix), width - indent.size(), indent) + '\n';
    const std::string peak = fmt::format("{} of {}", format_bytes(fix.peak_reserved), format_bytes(fix.capacity));
    const std::string line =
        fmt::format("{}; {}; {}", fix.fits ? paint(style, Ink::green, peak) : "does not fit, " + peak,
                    numbers_text(fix.numbers), time_of(fix));
    text += indent + wrap(line, width - indent.size(), indent) + '\n';
  }
  return text;
}

}  // namespace trainer
