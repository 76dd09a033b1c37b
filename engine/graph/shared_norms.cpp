#include "engine/graph/shared_norms.h"

#include <fmt/format.h>

#include "engine/config/diagnostic.h"

namespace trainer {

void check_shared_norms(const Graph& graph, std::int64_t odd_batch_size) {
  if (odd_batch_size != 1) return;
  for (const GraphNode& node : graph.nodes) {
    if (node.op.kind != OpKind::batchnorm2d_sums) continue;
    const TensorType& x = node.op.inputs[0];
    if (x.num_elements() / x.shape[-1] > graph.batch_size) continue;
    throw located_error(graph.layers[node.layer].location,
                        fmt::format("batch normalization over all ranks of an odd last batch of one sample: one value "
                                    "of each of {} channels has no variance, and all of them would become 0",
                                    x.shape[-1]),
                        "data.drop_last: true, which leaves it out, or another train.batch_size");
  }
}

}  // namespace trainer
