#include "engine/train/token_losses.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>

#include "datasets/reader_threads.h"

namespace trainer {
namespace {

std::int32_t token_of(const PredictionInput& window, std::size_t place) {
  std::int32_t token = 0;
  std::memcpy(&token, window.bytes.data() + place * sizeof token, sizeof token);
  return token;
}

}  // namespace

TokenLosses::TokenLosses(const PredictionOutputs& outputs, int num_threads)
    : length_(static_cast<std::size_t>(outputs.window_length)),
      num_logits_(static_cast<std::size_t>(outputs.num_logits)),
      num_threads_(num_threads) {}

double TokenLosses::loss_at(const PredictionInput& window, std::size_t place, std::span<const float> logits) const {
  if (!std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); }))
    return std::numeric_limits<double>::quiet_NaN();
  if (place + 1 < static_cast<std::size_t>(window.window.num_tokens))
    return token_loss(logits, token_of(window, place + 1));
  return window.window.behind ? token_loss(logits, *window.window.behind) : 0;
}

void TokenLosses::compute(std::span<const PredictionInput> windows, std::span<const float> numbers) {
  constexpr std::size_t places_at_once = 16;  // that a thread takes
  losses_.resize(windows.size() * length_);
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t first = 0; (first = next.fetch_add(places_at_once)) < losses_.size();)
      for (std::size_t i = first; i < std::min(first + places_at_once, losses_.size()); ++i) {
        const PredictionInput& window = windows[i / length_];
        const std::size_t place = i % length_;
        if (window.error.empty() && place < static_cast<std::size_t>(window.window.num_tokens))
          losses_[i] = loss_at(window, place, numbers.subspan(i * num_logits_, num_logits_));
      }
  };
  constexpr std::size_t logits_of_thread = std::size_t{1} << 18;  // fewer are read sooner than a thread is started
  const std::size_t most = std::max<std::size_t>(losses_.size() * num_logits_ / logits_of_thread, 1);
  const int num_others = std::min(num_threads_, static_cast<int>(std::min<std::size_t>(most, 1024))) - 1;
  ReaderThreads threads([] {});
  if (num_others > 0) threads.start(num_others, work);
  work();
}

std::span<const double> TokenLosses::of_window(std::size_t window, std::int64_t num_tokens) const {
  return std::span<const double>(losses_).subspan(window * length_, static_cast<std::size_t>(num_tokens));
}

}  // namespace trainer
