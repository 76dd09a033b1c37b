#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace trainer {

/// What a sample goes through on its way into a batch, in this order: its files, or pixels that lie somewhere, are
/// read, files are decoded, images transformed, or copied, into the batch, and their targets are copied there, as what
/// is kept for later epochs is to its place.
enum class SampleStage : std::uint8_t { read, decode, transform, copy };
inline constexpr std::array<std::string_view, 4> sample_stage_names = {"read", "decode", "transform", "copy"};
inline constexpr std::size_t num_sample_stages = sample_stage_names.size();

/// What the samples of a reader took, added up.
struct StageTimes {
  std::array<double, num_sample_stages> seconds{};  ///< by SampleStage
  std::int64_t num_samples = 0;
  /// Of them JPEGs that data.reduced_decoding decodes, or would decode, at a half or less.
  std::int64_t num_reducible = 0;
};

/// Looks at the clock behind each stage of one sample; without times, not at all.
class StageClock {
 public:
  explicit StageClock(StageTimes* times) : times_(times) {
    if (times_ != nullptr) last_ = Clock::now();
  }

  void ends(SampleStage stage) {
    if (times_ == nullptr) return;
    const Clock::time_point now = Clock::now();
    times_->seconds.at(static_cast<std::size_t>(stage)) += std::chrono::duration<double>(now - last_).count();
    last_ = now;
  }

 private:
  using Clock = std::chrono::steady_clock;

  StageTimes* times_;
  Clock::time_point last_;
};

}  // namespace trainer
