#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace trainer {

// Note [The learning rate range test]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Training with a learning rate that grows from step to step shows which rates the loss falls at. All of it is as
// fastai 2 has it (fastai/callback/schedule.py and the Recorder's AvgSmoothLoss), so that its curves and suggestions
// are the ones that people know. With steps i = 0 … N − 1:
//
//   rate        r_i = from · (to / from)^(i / N): the last is a step below `to`, as there
//   smoothed    v_i = 0.98 · v_(i−1) + 0.02 · loss_i with v_(−1) = 0, told without its start: s_i = v_i / (1 −
//   0.98^(i+1)) the end     behind step i where s_i > 4 · min(s_0 … s_i), or behind step N − 1. A loss that is not
//   finite ends it too,
//               and is not told; fastai goes on and leaves out what follows
//
// Suggestions look at the smoothed losses without the first ⌊N / 10⌋ and the last 5 of those that are there:
//
//   valley      of a longest falling subsequence, which ends at e (the first of its length L) and is taken to begin at
//               b = e − L: the rate at b + ⌊(e − b) / 3⌋ + ⌊(e − b) / 6⌋. fastai's documentation calls that place two
//               thirds through the valley; it is half of it. Where b is −1 and e 1, fastai's index −1 is the last rate,
//               and ours the first
//   steepest    the rate at which (s_(i+1) − s_i) / (ln r_(i+1) − ln r_i) is the lowest; its left end
//   minimum     a tenth of the rate at the lowest loss
//
// Where the loss does not fall, valley and steepest suggest nothing, and fastai the first rate or the flattest.

struct RangeTestOptions {
  double from = 1e-7, to = 10;
  std::int64_t steps = 100;
};

/// Of a step, from 1.
double range_test_rate(const RangeTestOptions& options, std::int64_t step);

struct SuggestedRate {
  double rate = 0;
  std::size_t place = 0;  ///< of the rate that it was found at, in RangeTest::rates
};

struct SuggestedRates {
  std::optional<SuggestedRate> valley, steepest, minimum;
};

enum class RangeTestEnd : std::uint8_t { finished, rose, not_finite, interrupted };

/// What a test has seen: Note [The learning rate range test].
class RangeTest {
 public:
  explicit RangeTest(const RangeTestOptions& options) : options_(options) {}

  /// Takes the loss of the next step. False where the test has ended.
  bool add(double loss);
  /// Where it ends before that: behind a step whose loss or weights are not finite, or by who asked for it.
  void end_not_finite() { end_ = RangeTestEnd::not_finite; }
  void interrupt() { end_ = RangeTestEnd::interrupted; }

  const RangeTestOptions& options() const { return options_; }
  std::span<const double> rates() const { return rates_; }
  std::span<const double> losses() const { return losses_; }      ///< as they came
  std::span<const double> smoothed() const { return smoothed_; }  ///< likewise
  RangeTestEnd end() const { return end_; }

  /// The smoothed losses that suggestions look at: so many from there on.
  std::size_t first_judged() const { return static_cast<std::size_t>(options_.steps / 10); }
  std::size_t num_judged() const;
  SuggestedRates suggestions() const;

 private:
  RangeTestOptions options_;
  std::vector<double> rates_, losses_, smoothed_;
  double average_ = 0, weight_ = 1;  ///< of what is smoothed; 0.98 to the number of its losses
  double lowest_ = 0;
  RangeTestEnd end_ = RangeTestEnd::finished;
};

}  // namespace trainer
