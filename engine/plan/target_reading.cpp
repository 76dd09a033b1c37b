#include "engine/plan/target_reading.h"

#include <algorithm>

namespace trainer {

bool depends_on_targets(const LossConfig& loss, const DataDescription& data) {
  const bool may_ignore = loss.ignore_index >= 0 || data.has_negative_targets;
  return loss.type == LossType::cross_entropy && (!loss.class_weights.empty() || may_ignore) && !data.mixes_batches;
}

int num_target_readers(const Experiment& experiment, const DataDescription& data) {
  const bool follow_images = data.target.shape.rank() > 0 || experiment.data.on_bad_sample == OnBadSample::skip;
  if (!follow_images) return 0;
  return std::any_of(experiment.losses.begin(), experiment.losses.end(),
                     [&](const LossConfig& loss) { return depends_on_targets(loss, data); })
             ? 1
             : 0;
}

}  // namespace trainer
