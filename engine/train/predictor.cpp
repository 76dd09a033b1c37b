#include "engine/train/predictor.h"

#include <array>

#include "engine/half.h"

namespace trainer {

Predictor::Predictor(Executor& executor) : executor_(executor), routines_(*executor.program().prediction) {
  const TensorType& type = routines_.batches.front().type;
  raw_.resize(type.dtype == DType::f32 ? 0 : static_cast<std::size_t>(type.num_bytes()));
  numbers_.resize(static_cast<std::size_t>(type.num_elements()));
}

std::int64_t Predictor::numbers_of_input() const {
  return routines_.batches.front().type.num_elements() / batch_size();
}

const PredictionRoutines::Batch& Predictor::batch_of(std::int64_t num_samples) const {
  require_internal(num_samples >= 1 && num_samples <= batch_size(),
                   "a batch has no more inputs than it was compiled for");
  const PredictionRoutines::Batch& last = routines_.batches.back();
  return num_samples == last.batch_size ? last : routines_.batches.front();
}

std::span<const float> Predictor::predict(const HostBatch& batch, const std::function<void()>& on_copied) {
  const PredictionRoutines::Batch& routines = batch_of(batch.num_samples);
  executor_.begin_step(++step_);
  const std::array<const Routine*, 1> predict = {&routines.predict}, release = {&routines.release};
  executor_.lay_out(predict);
  executor_.queue(0, 1, {}, &batch, on_copied);
  const auto count = static_cast<std::size_t>(routines.type.num_elements());
  const bool is_wide = routines.type.dtype == DType::f32;
  executor_.read(routines.prediction, is_wide ? static_cast<void*>(numbers_.data()) : raw_.data());
  if (!is_wide) widen(routines.type.dtype, raw_.data(), numbers_.data(), static_cast<std::int64_t>(count));
  if (on_copied && !executor_.device().copies_at_once()) on_copied();
  executor_.lay_out(release);
  return std::span<const float>(numbers_).first(static_cast<std::size_t>(batch.num_samples * numbers_of_input()));
}

}  // namespace trainer
