#include "engine/plan/fit_rates.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "engine/plan/cost_model.h"

namespace trainer {
namespace {

struct Point {
  double flops = 0, num_bytes = 0, seconds = 0;
};

/// Grows with the square of errors below the usual one, and with the error above, so that an odd shape does not bend
/// the rates of all others. Long calls weigh more, as in a step, but not as much more: short ones say what a call
/// takes.
double misfit(const std::vector<Point>& points, const OpRate& rate) {
  constexpr double usual_error = 0.1;
  double sum = 0;
  for (const Point& point : points) {
    const double error = std::log(predicted_seconds(point.flops, point.num_bytes, rate) / point.seconds) / usual_error;
    sum += std::cbrt(point.seconds) * (std::sqrt(1 + error * error) - 1);
  }
  return sum;
}

/// The highest rates and the shortest call that were seen: the best case of everything.
OpRate best_case(const std::vector<Point>& points) {
  OpRate rate{.call_seconds = points.front().seconds};
  for (const Point& point : points) {
    rate.flops_per_second = std::max(rate.flops_per_second, point.flops / point.seconds);
    rate.bytes_per_second = std::max(rate.bytes_per_second, point.num_bytes / point.seconds);
    rate.call_seconds = std::min(rate.call_seconds, point.seconds);
  }
  // Of ops that count no FLOPs (copies) or touch nothing, so that divisions are defined.
  if (rate.flops_per_second <= 0) rate.flops_per_second = rate.bytes_per_second;
  return rate;
}

struct Fit {
  OpRate rate;
  double misfit = 0;
};

/// From `start` on, one figure after the other is moved while that lowers the misfit, in ever smaller steps.
Fit descend(const std::vector<Point>& points, const OpRate& start) {
  Fit best{start, misfit(points, start)};
  constexpr double first_step = 0.5, last_step = 0.002;
  for (double step = first_step; step > last_step;) {
    bool moved = false;
    for (double OpRate::*const figure : {&OpRate::flops_per_second, &OpRate::bytes_per_second, &OpRate::call_seconds}) {
      for (const double factor : {1 + step, 1 / (1 + step)}) {
        Fit tried = best;
        tried.rate.*figure *= factor;
        tried.misfit = misfit(points, tried.rate);
        if (tried.misfit >= best.misfit) continue;
        best = tried;
        moved = true;
      }
    }
    if (!moved) step /= 2;
  }
  return best;
}

/// The best descent of several: whether short calls wait for bytes or for the call itself, one descent cannot find out.
OpRate fit(const std::vector<Point>& points) {
  const OpRate best_seen = best_case(points);
  Fit best{best_seen, misfit(points, best_seen)};
  for (const double bytes_share : {1.0, 0.3, 0.1}) {
    for (const double calls_share : {0.01, 0.5, 1.0, 5.0}) {
      OpRate start = best_seen;
      start.bytes_per_second *= bytes_share;
      start.call_seconds *= calls_share;
      const Fit found = descend(points, start);
      if (found.misfit < best.misfit) best = found;
    }
  }
  return best.rate;
}

}  // namespace

MachineRates fit_rates(std::span<const TimedOp> timed, const MachineRates& fallback) {
  // By precision, rate_class and kind.
  std::array<std::array<std::array<std::vector<Point>, num_op_kinds>, num_rate_classes>, 2> points;
  for (const TimedOp& call : timed) {
    const auto rate_class = static_cast<std::size_t>(rate_class_of(call.op, call.workspace_bytes));
    points[has_half_operand(call.op) ? 1 : 0][rate_class][static_cast<std::size_t>(call.op.kind)].push_back(
        {executed_flops(call.op, call.workspace_bytes), static_cast<double>(num_operand_bytes(call.op)), call.seconds});
  }
  MachineRates rates = fallback;
  for (std::size_t kind = 0; kind < num_op_kinds; ++kind) {
    // What was measured replaces what was not: the other rate_class first, then the other precision.
    const auto rate_of = [&](std::size_t precision, std::size_t rate_class) {
      for (const auto& [p, w] : {std::pair{precision, rate_class},
                                 {precision, 1 - rate_class},
                                 {1 - precision, rate_class},
                                 {1 - precision, 1 - rate_class}})
        if (!points[p][w][kind].empty()) return fit(points[p][w][kind]);
      return (precision == 0 ? fallback.f32 : fallback.half)[rate_class][kind];
    };
    for (std::size_t rate_class = 0; rate_class < num_rate_classes; ++rate_class) {
      rates.f32[rate_class][kind] = rate_of(0, rate_class);
      rates.half[rate_class][kind] = rate_of(1, rate_class);
    }
  }
  return rates;
}

}  // namespace trainer
