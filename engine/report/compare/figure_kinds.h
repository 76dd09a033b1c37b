#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace trainer {

enum class FigureUnit : std::uint8_t { bytes, count, seconds, rate, share, number };
/// What makes a run worse than another one.
enum class WorseIf : std::uint8_t { neither, more, less };

/// One number that runs are compared by.
struct FigureKind {
  std::string_view key;    ///< as --check and JSON name it: "memory.reserved"
  std::string_view group;  ///< "memory", "speed", "result", "run"
  std::string_view label;  ///< in a table
  FigureUnit unit = FigureUnit::number;
  WorseIf worse = WorseIf::neither;
};

/// All of them, in the order in which they are told.
std::span<const FigureKind> figure_kinds();
/// Null where none has that key.
const FigureKind* figure_kind(std::string_view key);

/// "1.50 MiB", "184", "5.21 ms", "6,194", "99.17 %", "0.0319", "not finite"
std::string figure_text(FigureUnit unit, double value);
/// The same of a difference, with its sign; of shares in percentage points.
std::string difference_text(FigureUnit unit, double difference);
/// "+3.2 %" of what the reference is; "-" where that is 0 or one of them is not finite.
std::string percent_text(double reference, double value);

}  // namespace trainer
