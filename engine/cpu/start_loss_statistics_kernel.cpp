#include <cmath>
#include <limits>

#include "engine/cpu/kernels.h"
#include "engine/ops/loss_statistics.h"

namespace trainer {

namespace {

std::unique_ptr<CpuKernel> make_start_loss_statistics_kernel(const Op& op, CpuContext&) {
  const int num_numbers = attributes_of<LossStatisticsAttributes>(op).num_terms * num_loss_statistics;
  return make_kernel([num_numbers, keeps = attributes_of<LossStatisticsAttributes>(op).keeps_non_finite](
                         const OperandAddresses& addresses, const StepScalars&) {
    auto* const statistics = modified_input<double>(addresses, 0);
    const bool has_lost_weights = std::isnan(statistics[num_counted]);
    for (int i = 0; i < num_numbers; ++i)
      if (!keeps || i != loss_sum || std::isfinite(statistics[i])) statistics[i] = 0;
    if (has_lost_weights) statistics[loss_sum] = statistics[num_counted] = std::numeric_limits<double>::quiet_NaN();
  });
}

}  // namespace

const CpuOp start_loss_statistics_on_cpu = {make_start_loss_statistics_kernel, cut_nowhere};

}  // namespace trainer
