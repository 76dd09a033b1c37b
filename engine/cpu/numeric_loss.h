#pragma once

#include <concepts>
#include <memory>

#include "engine/cpu/loss_parts.h"

namespace trainer {

/// The kernel of a loss over numbers: summarize(prediction, targets, part, begin, end) fills a part of it.
template <std::invocable<const float*, const float*, LossPart&, std::int64_t, std::int64_t> Summarize>
std::unique_ptr<CpuKernel> make_numeric_loss_kernel(const Op& op, const CpuContext& context, Summarize summarize) {
  return make_kernel([parts = loss_parts(op), term = loss_term_of(op), threads = context.num_threads, summarize](
                         const OperandAddresses& addresses, const StepScalars&) {
    sum_loss_parts(parts.rows <= serial_elements ? 1 : threads, parts, addresses.workspace,
                   modified_input<double>(addresses, 2), term,
                   [&](LossPart& part, std::int64_t begin, std::int64_t end) {
                     summarize(input(addresses, 0), input(addresses, 1), part, begin, end);
                   });
  });
}

/// Of its gradient: differentiate(prediction, targets, gradients, scale, begin, end) writes a part of it.
template <std::invocable<const float*, const float*, float*, float, std::int64_t, std::int64_t> Differentiate>
std::unique_ptr<CpuKernel> make_numeric_loss_backward_kernel(const Op& op, const CpuContext& context,
                                                             Differentiate differentiate) {
  return make_kernel([count = op.inputs[0].num_elements(), term = loss_term_of(op), threads = context.num_threads,
                      differentiate](const OperandAddresses& addresses, const StepScalars& scalars) {
    parallel_elements(threads, count, [&](std::int64_t begin, std::int64_t end) {
      differentiate(input(addresses, 0), input(addresses, 1), output(addresses, 0), scalars.gradient_scale_of(term),
                    begin, end);
    });
  });
}

}  // namespace trainer
