#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/report/text/style.h"

namespace trainer {

struct CurvePoint {
  std::int64_t step = 0;
  double value = 0;
};

/// The loss of a run over its steps, in little memory however long it is: means of equally many steps.
class LossCurve {
 public:
  /// Of the next step. One that is not finite leaves a gap in the number of steps, and no point.
  void add(std::int64_t step, double loss);

  /// At most `most`: means of equally many steps, each at the last of its steps.
  std::vector<CurvePoint> points(std::size_t most) const;

  /// A drawing of a few lines with its highest and lowest value and its steps; empty where there are too few to draw.
  std::string text(const Style& style) const;

 private:
  struct Stretch {
    std::int64_t first_step = 0, last_step = 0;
    double sum = 0;
    std::int64_t count = 0;  ///< of finite losses

    double mean() const { return sum / static_cast<double>(count); }
  };

  std::int64_t steps_per_stretch_ = 1;
  std::vector<Stretch> stretches_;
};

}  // namespace trainer
