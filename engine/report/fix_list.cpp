#include "engine/report/fix_list.h"

#include <fmt/format.h>

#include "engine/bytes.h"
#include "engine/report/memory_table.h"

namespace trainer {
namespace {

std::string time_of(const Fix& fix) {
  if (fix.relative_step_time > 0.99 && fix.relative_step_time < 1.01) return "about the same time a step";
  return fmt::format("about {:.2f} times the time a step", fix.relative_step_time);
}

}  // namespace

std::string fix_list(const std::vector<Fix>& fixes, std::int64_t capacity, const Style& style) {
  const auto width = static_cast<std::size_t>(style.width);
  if (fixes.empty())
    return wrap(
               "  No change of the batch size makes this fit: the parameters and what the optimizer keeps for them "
               "need more than the capacity. Use a smaller model or more memory.",
               width, "  ") +
           "\n";
  std::string text;
  for (std::size_t i = 0; i < fixes.size(); ++i) {
    const Fix& fix = fixes[i];
    const std::string number = fmt::format("  {}. ", i + 1);
    const std::string indent(number.size(), ' ');
    text += number + paint(style, Ink::bold, paste_overrides(fix.set)) + '\n';
    const std::string verdict = fix.fits ? paint(style, Ink::green, "fits") : paint(style, Ink::red, "does not fit");
    const std::string line =
        fmt::format("{}: {}, peak {} reserved of {}; {}; {}", fix.what, verdict, format_bytes(fix.peak_reserved),
                    format_bytes(capacity), fix.same_result ? "same result" : "changes the result", time_of(fix));
    text += indent + wrap(line, width - indent.size(), indent) + '\n';
  }
  return text;
}

}  // namespace trainer
