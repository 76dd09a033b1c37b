#include <algorithm>

#include "engine/cpu/kernels.h"
#include "engine/ops/loss_statistics.h"

namespace trainer {

namespace {

std::int64_t numbers_of(const PartStatisticsAttributes& attributes) {
  return std::int64_t{attributes.num_terms} * num_loss_statistics;
}

std::unique_ptr<CpuKernel> make_keep_part_statistics_kernel(const Op& op, CpuContext&) {
  const auto attributes = attributes_of<PartStatisticsAttributes>(op);
  return make_kernel([attributes](const OperandAddresses& addresses, const StepScalars&) {
    const std::int64_t num_numbers = numbers_of(attributes);
    auto* const statistics = modified_input<double>(addresses, 0);
    auto* const kept = modified_input<double>(addresses, 1) + attributes.part * num_numbers;
    for (std::int64_t i = 0; i < num_numbers; ++i) kept[i] += statistics[i];
    std::fill_n(statistics, num_numbers, 0.0);
  });
}

std::unique_ptr<CpuKernel> make_sum_part_statistics_kernel(const Op& op, CpuContext&) {
  const auto attributes = attributes_of<PartStatisticsAttributes>(op);
  return make_kernel([attributes](const OperandAddresses& addresses, const StepScalars&) {
    const std::int64_t num_numbers = numbers_of(attributes), num_parts = attributes.num_parts;
    auto* const statistics = modified_input<double>(addresses, 0);
    auto* const kept = modified_input<double>(addresses, 1);
    for (std::int64_t apart = 1; apart < num_parts; apart *= 2)
      for (std::int64_t part = 0; part < num_parts; part += 2 * apart)
        for (std::int64_t i = 0; i < num_numbers; ++i)
          kept[part * num_numbers + i] += kept[(part + apart) * num_numbers + i];
    std::copy_n(kept, num_numbers, statistics);
    std::fill_n(kept, num_parts * num_numbers, 0.0);
  });
}

}  // namespace

const CpuOp keep_part_statistics_on_cpu = {make_keep_part_statistics_kernel, cut_nowhere};
const CpuOp sum_part_statistics_on_cpu = {make_sum_part_statistics_kernel, cut_nowhere};

}  // namespace trainer
