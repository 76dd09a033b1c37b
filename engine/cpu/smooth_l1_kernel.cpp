#include "engine/cpu/numeric_loss.h"
#include "engine/simd.h"

namespace trainer {

namespace {

/// The numbers of smooth_l1's two pieces: cost |d| − `offset`, or d² · `curvature` / 2 for |d| below `beta`.
struct SmoothL1Pieces {
  float beta, curvature;
  double offset;

  explicit SmoothL1Pieces(const Op& op) {
    const double width = attributes_of<SmoothL1Attributes>(op).beta;
    beta = static_cast<float>(width);
    curvature = width > 0 ? static_cast<float>(1 / width) : 0.0F;
    offset = width / 2;
  }
};

TRAINER_SIMD double sum_smooth_l1(const float* prediction, const float* targets, const SmoothL1Pieces& pieces,
                                  std::int64_t begin, std::int64_t end) {
  const auto half_curvature = static_cast<double>(pieces.curvature) / 2;
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = begin; i < end; ++i) {
    const float difference = prediction[i] - targets[i];
    const float size = difference < 0 ? -difference : difference;
    const auto wide = static_cast<double>(size);
    sum += size < pieces.beta ? wide * wide * half_curvature : wide - pieces.offset;
  }
  return sum;
}

TRAINER_SIMD void smooth_l1_gradients(const float* prediction, const float* targets, const SmoothL1Pieces& pieces,
                                      float* gradients, float scale, std::int64_t begin, std::int64_t end) {
  const float slope = scale * pieces.curvature;
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) {
    const float difference = prediction[i] - targets[i];
    const float size = difference < 0 ? -difference : difference;
    // A difference that is not a number is above nothing, and stays one.
    const float sign = difference > 0 ? scale : difference < 0 ? -scale : difference * scale;
    gradients[i] = size < pieces.beta ? slope * difference : sign;
  }
}

std::unique_ptr<CpuKernel> make_smooth_l1_kernel(const Op& op, CpuContext& context) {
  return make_numeric_loss_kernel(op, context,
                                  [pieces = SmoothL1Pieces(op)](const float* prediction, const float* targets,
                                                                LossPart& part, std::int64_t begin, std::int64_t end) {
                                    part.statistics[loss_sum] = sum_smooth_l1(prediction, targets, pieces, begin, end);
                                    part.statistics[loss_weight] = static_cast<double>(end - begin);
                                  });
}

std::unique_ptr<CpuKernel> make_smooth_l1_backward_kernel(const Op& op, CpuContext& context) {
  return make_numeric_loss_backward_kernel(
      op, context,
      [pieces = SmoothL1Pieces(op)](const float* prediction, const float* targets, float* gradients, float scale,
                                    std::int64_t begin, std::int64_t end) {
        smooth_l1_gradients(prediction, targets, pieces, gradients, scale, begin, end);
      });
}

}  // namespace

const CpuOp smooth_l1_on_cpu = {make_smooth_l1_kernel, cut_nowhere, loss_workspace_bytes};
const CpuOp smooth_l1_backward_on_cpu = {make_smooth_l1_backward_kernel, cut_nowhere};

}  // namespace trainer
