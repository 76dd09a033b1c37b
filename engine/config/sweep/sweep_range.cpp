#include "engine/config/sweep/sweep_range.h"

#include <fmt/format.h>

#include <cctype>
#include <cmath>
#include <cstdint>
#include <limits>
#include <variant>

#include "engine/config/sweep/sweep_grid.h"
#include "engine/config/text/number_text.h"

namespace trainer {
namespace {

/// "1.5GiB": a number as written, and the letters behind it.
struct Quantity {
  std::string number, unit;
  double value = 0;
  std::optional<std::int64_t> integer;

  std::string text() const { return number + unit; }
};

bool is_decimal_digit(char letter) { return letter >= '0' && letter <= '9'; }

/// Takes a quantity off the front of `text`. A '.' belongs to it only before a digit, so that "1..2" is not "1." and
/// ".2".
std::optional<Quantity> take_quantity(std::string_view& text) {
  std::size_t at = 0;
  const auto skip_digits = [&] {
    const std::size_t begin = at;
    while (at < text.size() && is_decimal_digit(text[at])) ++at;
    return at - begin;
  };
  if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
  std::size_t num_digits = skip_digits();
  if (at + 1 < text.size() && text[at] == '.' && is_decimal_digit(text[at + 1])) {
    ++at;
    num_digits += skip_digits();
  }
  if (num_digits == 0) return std::nullopt;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    const std::size_t before = at++;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (skip_digits() == 0) at = before;
  }
  Quantity quantity;
  quantity.number = std::string(text.substr(0, at));
  const auto number = read_number(quantity.number);
  if (!std::holds_alternative<double>(number)) return std::nullopt;
  quantity.value = std::get<double>(number);
  const auto integer = read_integer(quantity.number);
  if (const auto* whole = std::get_if<std::int64_t>(&integer)) quantity.integer = *whole;
  const std::size_t unit = at;
  while (at < text.size() && std::isalpha(static_cast<unsigned char>(text[at])) != 0) ++at;
  quantity.unit = std::string(text.substr(unit, at - unit));
  text.remove_prefix(at);
  return quantity;
}

SweepRange mistaken_range(std::string mistake, std::string expectation = "") {
  return {{}, std::move(mistake), std::move(expectation)};
}

/// The numbers of a range, without unit.
std::vector<std::string> count_range(const Quantity& low, const Quantity& high, bool multiplies, const Quantity& step) {
  std::vector<std::string> values;
  const auto add = [&](std::string value) {
    if (values.empty() || values.back() != value) values.push_back(std::move(value));
  };
  if (low.integer && high.integer && step.integer) {
    const std::int64_t by = *step.integer;
    std::int64_t value = *low.integer;
    while (true) {
      add(fmt::format("{}", value));
      // No sum or product beyond the end is formed, which might be none.
      if (multiplies ? value > *high.integer / by : value > 0 && by > std::numeric_limits<std::int64_t>::max() - value)
        break;
      value = multiplies ? value * by : value + by;
      if (value > *high.integer) break;
    }
    return values;
  }
  const bool rounds = multiplies && low.integer && high.integer;
  constexpr double tolerance = 1e-9;  // of the end, which 0.1 · 3 misses
  const double end = high.value + tolerance * std::max(std::abs(high.value), std::abs(step.value));
  for (int i = 0;; ++i) {
    const double value = multiplies ? low.value * std::pow(step.value, i) : low.value + step.value * i;
    if (value > end) break;
    // Twelve digits are more than a key needs and fewer than rounding spoils.
    add(rounds ? fmt::format("{:.0f}", value) : fmt::format("{:.12g}", value));
  }
  return values;
}

}  // namespace

std::optional<SweepRange> read_sweep_range(std::string_view text) {
  constexpr const char* forms = "LOW..HIGH:*FACTOR or LOW..HIGH:+STEP, such as 16..512:*2 or 16..64:+16";
  const std::string_view whole = text;
  const std::optional<Quantity> low = take_quantity(text);
  if (!low || !text.starts_with("..")) return std::nullopt;
  text.remove_prefix(2);
  const std::optional<Quantity> high = take_quantity(text);
  if (!high) return mistaken_range(fmt::format("the range '{}' has no number behind '..'", whole), forms);
  if (text.empty())
    return mistaken_range(fmt::format("the range '{}' does not say how it counts", whole),
                          fmt::format("{0}:*2, doubling, or {0}:+1{1}", whole, low->unit));
  if (!text.starts_with(":*") && !text.starts_with(":+"))
    return mistaken_range(fmt::format("'{}' is no range", whole), forms);
  const bool multiplies = text[1] == '*';
  text.remove_prefix(2);
  const std::optional<Quantity> step = take_quantity(text);
  if (!step || !text.empty() || (multiplies && !step->unit.empty()))
    return mistaken_range(fmt::format("the range '{}' counts by no number", whole), forms);
  if (low->unit != high->unit || (!step->unit.empty() && step->unit != low->unit))
    return mistaken_range(fmt::format("the range '{}' mixes units", whole),
                          "the same unit at both ends, such as 1GiB..8GiB:*2");
  if (multiplies && step->value <= 1)
    return mistaken_range(fmt::format("the range '{}' multiplies by {}", whole, step->number), "a factor above 1");
  if (!multiplies && step->value <= 0)
    return mistaken_range(fmt::format("the range '{}' adds {}", whole, step->number), "a step above 0");
  if (multiplies && low->value <= 0)
    return mistaken_range(fmt::format("the range '{}' multiplies from {}", whole, low->text()), "a beginning above 0");
  if (high->value < low->value)
    return mistaken_range(fmt::format("the range '{}' ends below its beginning", whole),
                          "the smaller end first; a list goes in any order, such as 64,32,16");
  const double num_steps = multiplies ? std::log(high->value / low->value) / std::log(step->value)
                                      : (high->value - low->value) / step->value;
  if (!(num_steps < most_sweep_points))
    return mistaken_range(fmt::format("the range '{}' has more than {} values", whole, most_sweep_points));
  SweepRange range;
  range.values = count_range(*low, *high, multiplies, *step);
  for (std::string& value : range.values) value += low->unit;
  return range;
}

}  // namespace trainer
