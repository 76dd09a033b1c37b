#include "engine/report/text/layout_text.h"

#include <fmt/format.h>

#include "engine/config/fields/enum_choices.h"

namespace trainer {

std::string layout_text(const ParallelConfig& parallel) {
  const std::int64_t num_ranks = total_ranks(parallel);
  if (parallel.pipeline == 1 && parallel.tensor == 1) return fmt::format("{} ranks share each batch", num_ranks);
  if (parallel.pipeline == 1 && parallel.data == 1) return fmt::format("{} ranks share each layer", num_ranks);
  if (parallel.pipeline == 1)
    return fmt::format("{} ranks: {} share each layer, and {} such groups each batch", num_ranks, parallel.tensor,
                       parallel.data);
  const std::string order(pipeline_order_choices().name_of(parallel.schedule));
  return fmt::format("{} ranks: a pipeline of {} stages ({}, {} micro-batches){}{}", num_ranks, parallel.pipeline,
                     order, num_micro_batches(parallel),
                     parallel.tensor > 1 ? fmt::format(", of layers that {} share", parallel.tensor) : "",
                     parallel.data > 1 ? fmt::format(", each of {} that share a batch", parallel.data) : "");
}

}  // namespace trainer
