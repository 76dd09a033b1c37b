#include <cmath>

#include "engine/cpu/kernels.h"
#include "engine/ops/loss_statistics.h"

namespace trainer {

std::unique_ptr<CpuKernel> make_start_loss_statistics_kernel(const Op& op, CpuContext&) {
  return make_kernel([keeps = attributes_of<LossStatisticsAttributes>(op).keeps_non_finite](
                         const OperandAddresses& addresses, const StepScalars&) {
    auto* const statistics = modified_input<double>(addresses, 0);
    for (int i = 0; i < num_loss_statistics; ++i)
      if (!keeps || i != loss_sum || std::isfinite(statistics[i])) statistics[i] = 0;
  });
}

}  // namespace trainer
