#include "engine/program/statistics_fusion.h"

#include <utility>
#include <vector>

#include "engine/program/value_uses.h"

namespace trainer {
namespace {

/// False where the device has none.
bool add_statistics(Graph& graph, GraphNode& convolution, const DeviceModel& device) {
  if (attributes_of<Conv2dAttributes>(convolution.op).statistics) return true;
  Op op = conv2d_with_statistics_op(convolution.op);
  if (!device.convolution_statistics(op)) return false;
  convolution.op = std::move(op);
  for (const char* const role : {"output.sums", "output.square_sums"}) {
    Value sums;
    sums.type = convolution.op.outputs[1];
    sums.role = role;
    sums.category = Category::temporary;
    sums.layer = convolution.layer;
    graph.values.push_back(std::move(sums));
    convolution.outputs.push_back(static_cast<ValueId>(graph.values.size() - 1));
  }
  return true;
}

}  // namespace

void take_statistics_from_convolutions(Graph& graph, const DeviceModel& device) {
  const std::vector<std::int32_t> producer = ValueUses(graph).producer;
  for (GraphNode& norm : graph.nodes) {
    if (norm.op.kind != OpKind::batchnorm2d || producer[norm.inputs[0]] < 0) continue;
    GraphNode& convolution = graph.nodes[producer[norm.inputs[0]]];
    if (!may_have_statistics(convolution.op) || !add_statistics(graph, convolution, device)) continue;
    norm.op = batchnorm2d_given_sums_op(norm.op);
    norm.inputs.insert(norm.inputs.end(), convolution.outputs.begin() + 1, convolution.outputs.end());
  }
}

}  // namespace trainer
