#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "engine/train/events.h"

namespace trainer {

/// A number as TensorBoard and MLflow show it, in the group of what stands before the first '/'. Bytes, seconds, shares
/// from 0 to 1.
struct LiveScalar {
  std::string_view tag;  ///< valid as long as the program, but for classes' until the next call
  double value = 0;
};

/// 0 where it took no time.
inline double per_second(std::int64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0.0;
}

/// The numbers of events, by tags that users of PyTorch look for: loss/train, loss/validation, memory/reserved, …
class LiveScalars {
 public:
  /// Those that the event has, valid until the next call. What is NaN is there too.
  const std::vector<LiveScalar>& of(const StepEvent& event);
  const std::vector<LiveScalar>& of(const EvalEvent& event);

 private:
  void add(std::string_view tag, double value) { scalars_.push_back({tag, value}); }
  void add(std::string_view tag, std::int64_t value) { add(tag, static_cast<double>(value)); }
  void add_terms(const LossTerms& terms, bool is_validation);
  void add_classes(std::string_view group, const std::vector<double>& values);

  std::vector<LiveScalar> scalars_;
  std::deque<std::string> class_tags_;  ///< which stay where they are
};

}  // namespace trainer
