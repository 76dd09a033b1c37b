#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/config/layer_spec.h"
#include "engine/config/transform_spec.h"
#include "engine/ops/mixed_sample.h"

namespace trainer {

/// Draws of what the samples of a batch are made: mixup and cutmix of data.transforms.train. Note [Mixed batches] in
/// engine/ops/mixed_sample.h.
///
/// Note [Numbers of mixed batches]
/// As those of samples (Note [Numbers of transforms] in transforms/transform_chain.h): words of the stream
/// `mixing_stream` and the step `epoch`, from the block batch · 2^16 on. One decides which of two transforms it is, the
/// next whether it is done, by `p`; then the share is drawn, and for cutmix the box's middle. All samples of a batch
/// have one share and one box, as torchvision's. The share is of the distribution Beta(alpha, alpha): of two numbers of
/// Gamma(alpha, 1), as Marsaglia and Tsang draw them ("A simple method for generating gamma variables", 2000).
class BatchMixing {
 public:
  /// `transforms`: a mixup, a cutmix, or both, one of which each batch then gets. `size`: of the images.
  BatchMixing(std::span<const TransformSpec> transforms, Pair size, std::uint64_t seed);

  /// What all samples of a batch have in common: partner and partner_class are not set.
  MixedSample draw(std::int64_t epoch, std::int64_t batch) const;

  /// Of which sample of so many a sample's other part is.
  static std::int64_t partner_of(std::int64_t sample, std::int64_t num_samples) {
    return sample == 0 ? num_samples - 1 : sample - 1;
  }
  /// Tells each sample its partner, and that one's class where there are `classes`; as many as `samples`, or none.
  static void pair(const MixedSample& drawn, std::span<const std::int32_t> classes, std::span<MixedSample> samples);
  /// Mixes numbers to predict, `numbers_of_target` of each sample, by `share`.
  static void mix(float share, std::int64_t numbers_of_target, std::span<float> targets);

 private:
  std::optional<MixUpSpec> mixup_;
  std::optional<CutMixSpec> cutmix_;
  Pair size_;
  std::uint64_t seed_;
};

}  // namespace trainer
