#pragma once

#include "engine/cpu/kernels.h"
#include "engine/cpu/parallel.h"
#include "engine/ops/loss_statistics.h"

namespace trainer {

/// What one part of the batch adds to the loss statistics; one cache line each, so that threads do not share any.
struct alignas(64) LossPart {
  double statistics[num_loss_statistics] = {};
};

inline double* statistics_of(const LossTerm& term, double* statistics) {
  return statistics + term.index * num_loss_statistics;
}
/// A loss that is not finite shows in the first term's: Note [Lost weights] in engine/ops/loss_statistics.h.
inline void tell_first_term(const LossTerm& term, double* statistics) {
  if (term.index > 0) statistics[loss_sum] += 0 * statistics_of(term, statistics)[loss_sum];
}

/// Targets of a cross-entropy or numbers of another loss, in parts of fixed size.
RowParts loss_parts(const Op& op);

/// CpuOp::workspace_bytes of losses: their parts.
std::int64_t loss_workspace_bytes(const Op& op, CpuContext& context);

/// Fills the parts in the workspace by summarize(part, begin, end) and adds them, in order, to the statistics of
/// `term`.
template <typename Summarize>
void sum_loss_parts(int num_threads, const RowParts& parts, void* workspace, double* statistics, const LossTerm& term,
                    Summarize&& summarize) {
  auto* const sums = static_cast<LossPart*>(workspace);
  parallel_tasks(num_threads, parts.num_parts, [&](std::int64_t part) {
    LossPart sum;
    summarize(sum, parts.begin(part), parts.end(part));
    sums[part] = sum;
  });
  double* const of_term = statistics_of(term, statistics);
  for (std::int64_t part = 0; part < parts.num_parts; ++part)
    for (int i = 0; i < num_loss_statistics; ++i) of_term[i] += sums[part].statistics[i];
  tell_first_term(term, statistics);
}

}  // namespace trainer
