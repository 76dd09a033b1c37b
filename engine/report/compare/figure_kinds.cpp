#include "engine/report/compare/figure_kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/bytes.h"
#include "engine/report/text/nearest_integer.h"
#include "engine/report/text/style.h"

namespace trainer {
namespace {

constexpr std::array<FigureKind, 51> all_figure_kinds = {{
    {"memory.requested", "memory", "peak requested", FigureUnit::bytes, WorseIf::more},
    {"memory.allocated", "memory", "peak allocated", FigureUnit::bytes, WorseIf::more},
    {"memory.reserved", "memory", "peak reserved", FigureUnit::bytes, WorseIf::more},
    {"memory.used", "memory", "peak used", FigureUnit::bytes, WorseIf::more},
    {"memory.parameter", "memory", "· parameter", FigureUnit::bytes, WorseIf::more},
    {"memory.gradient", "memory", "· gradient", FigureUnit::bytes, WorseIf::more},
    {"memory.optimizer_state", "memory", "· optimizer_state", FigureUnit::bytes, WorseIf::more},
    {"memory.activation", "memory", "· activation", FigureUnit::bytes, WorseIf::more},
    {"memory.input", "memory", "· input", FigureUnit::bytes, WorseIf::more},
    {"memory.workspace", "memory", "· workspace", FigureUnit::bytes, WorseIf::more},
    {"memory.temporary", "memory", "· temporary", FigureUnit::bytes, WorseIf::more},
    {"memory.communication", "memory", "· communication", FigureUnit::bytes, WorseIf::more},
    {"memory.frozen", "memory", "· frozen", FigureUnit::bytes, WorseIf::more},
    {"memory.steady.requested", "memory", "steady step requested", FigureUnit::bytes, WorseIf::more},
    {"memory.steady.allocated", "memory", "steady step allocated", FigureUnit::bytes, WorseIf::more},
    {"memory.steady.reserved", "memory", "steady step reserved", FigureUnit::bytes, WorseIf::more},
    {"memory.held", "memory", "held at its end", FigureUnit::bytes, WorseIf::more},
    {"memory.resident", "memory", "process resident", FigureUnit::bytes, WorseIf::more},
    {"speed.samples", "speed", "samples/s", FigureUnit::rate, WorseIf::less},
    {"speed.tokens", "speed", "tokens/s", FigureUnit::rate, WorseIf::less},
    {"speed.step", "speed", "step, median", FigureUnit::seconds, WorseIf::more},
    {"speed.data", "speed", "waiting for data", FigureUnit::share, WorseIf::more},
    {"speed.mfu", "speed", "MFU", FigureUnit::share, WorseIf::less},
    {"loss", "result", "loss", FigureUnit::number, WorseIf::more},
    {"loss.best", "result", "loss, best", FigureUnit::number, WorseIf::more},
    {"accuracy", "result", "accuracy", FigureUnit::share, WorseIf::less},
    {"accuracy.best", "result", "accuracy, best", FigureUnit::share, WorseIf::less},
    {"top5", "result", "top-5", FigureUnit::share, WorseIf::less},
    {"top5.best", "result", "top-5, best", FigureUnit::share, WorseIf::less},
    {"mean_iou", "result", "mean IoU", FigureUnit::share, WorseIf::less},
    {"mean_iou.best", "result", "mean IoU, best", FigureUnit::share, WorseIf::less},
    {"dice", "result", "dice", FigureUnit::share, WorseIf::less},
    {"dice.best", "result", "dice, best", FigureUnit::share, WorseIf::less},
    {"mae", "result", "MAE", FigureUnit::number, WorseIf::more},
    {"mae.best", "result", "MAE, best", FigureUnit::number, WorseIf::more},
    {"r2", "result", "R²", FigureUnit::number, WorseIf::less},
    {"r2.best", "result", "R², best", FigureUnit::number, WorseIf::less},
    {"perplexity", "result", "perplexity", FigureUnit::number, WorseIf::more},
    {"perplexity.best", "result", "perplexity, best", FigureUnit::number, WorseIf::more},
    {"bits_per_byte", "result", "bits a byte", FigureUnit::number, WorseIf::more},
    {"bits_per_byte.best", "result", "bits a byte, best", FigureUnit::number, WorseIf::more},
    {"train_loss", "result", "training loss", FigureUnit::number, WorseIf::more},
    {"train_loss.best", "result", "training loss, best", FigureUnit::number, WorseIf::more},
    {"steps", "run", "steps", FigureUnit::count, WorseIf::neither},
    {"epochs", "run", "epochs", FigureUnit::count, WorseIf::neither},
    {"seconds", "run", "time", FigureUnit::seconds, WorseIf::more},
    {"parameters", "run", "parameters", FigureUnit::count, WorseIf::neither},
    {"batch_size", "run", "batch size", FigureUnit::count, WorseIf::neither},
    {"total_steps", "run", "steps asked for", FigureUnit::count, WorseIf::neither},
    {"capacity", "run", "capacity", FigureUnit::bytes, WorseIf::neither},
    {"warnings", "run", "warnings", FigureUnit::count, WorseIf::neither},
}};

std::string signed_percent(double share) {
  const double size = std::abs(share);
  if (size < 0.1) return fmt::format("{:+.2f} %", 100 * share);
  if (size < 10) return fmt::format("{:+.1f} %", 100 * share);
  return fmt::format("{}{} %", share < 0 ? "-" : "+", size < 1e13 ? format_count(std::llround(100 * size)) : "…");
}

}  // namespace

std::span<const FigureKind> figure_kinds() { return all_figure_kinds; }

const FigureKind* figure_kind(std::string_view key) {
  const auto found = std::find_if(all_figure_kinds.begin(), all_figure_kinds.end(),
                                  [&](const FigureKind& kind) { return kind.key == key; });
  return found == all_figure_kinds.end() ? nullptr : &*found;
}

std::string figure_text(FigureUnit unit, double value) {
  if (!std::isfinite(value)) return "not finite";
  switch (unit) {
    case FigureUnit::bytes:
      return format_bytes(nearest_integer(value));
    case FigureUnit::count:
      return format_count(nearest_integer(value));
    case FigureUnit::rate:
      return value >= 100 && value < 1e15 ? format_count(std::llround(value)) : fmt::format("{:.4g}", value);
    case FigureUnit::seconds:
      return value < 1 ? fmt::format("{:.4g} ms", 1000 * value) : format_duration(value);
    case FigureUnit::share:
      return fmt::format("{:.2f} %", 100 * value);
    case FigureUnit::number:
      return fmt::format("{:.5g}", value);
  }
  return "";
}

std::string difference_text(FigureUnit unit, double difference) {
  if (!std::isfinite(difference)) return "-";
  if (difference == 0) return "0";
  const std::string sign = difference < 0 ? "-" : "+";
  if (unit == FigureUnit::share) return fmt::format("{}{:.2f} points", sign, 100 * std::abs(difference));
  return sign + figure_text(unit, std::abs(difference));
}

std::string percent_text(double reference, double value) {
  if (reference == value) return "0 %";
  const double share = (value - reference) / std::abs(reference);
  return std::isfinite(share) ? signed_percent(share) : "-";
}

}  // namespace trainer
