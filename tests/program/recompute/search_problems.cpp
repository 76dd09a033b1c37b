#include "tests/program/recompute/search_problems.h"

#include <algorithm>
#include <numeric>

namespace trainer::recompute_problems {

std::int32_t ProblemBuilder::value(std::int64_t num_bytes) {
  problem_.values.push_back({});
  problem_.values.back().num_bytes = num_bytes;
  return static_cast<std::int32_t>(problem_.values.size()) - 1;
}

std::int32_t ProblemBuilder::source(std::int64_t num_bytes) { return value(num_bytes); }

std::int32_t ProblemBuilder::layer(const Layer& layer, const std::vector<std::int32_t>& inputs) {
  RecomputeProblem::Node node;
  node.time = layer.time;
  node.workspace_bytes = layer.workspace_bytes;
  node.inputs = inputs;
  node.can_rerun = true;
  const std::int32_t output = value(layer.num_bytes);
  node.outputs = {output};
  if (layer.in_place)
    for (std::int32_t input : inputs)
      if (problem_.values[input].num_bytes == layer.num_bytes) node.take_overs.push_back({output, input});
  if (layer.pinned_bytes > 0) {
    const std::int32_t pinned = value(layer.pinned_bytes);
    problem_.values[pinned].is_pinned = true;
    node.outputs.push_back(pinned);
    node.rerun_inputs = inputs;
    node.rerun_inputs.push_back(pinned);
    node.rerun_time = layer.time / 2;
  }
  problem_.nodes.push_back(node);
  layers_.push_back(layer);
  return output;
}

RecomputeProblem ProblemBuilder::finish(std::int32_t last) {
  problem_.num_forward = static_cast<std::int32_t>(problem_.nodes.size());
  std::vector<bool> is_made(problem_.values.size(), false);
  for (const RecomputeProblem::Node& node : problem_.nodes)
    for (std::int32_t output : node.outputs) is_made[output] = true;
  std::vector<std::int32_t> gradient(problem_.values.size(), -1);

  RecomputeProblem::Node loss;
  loss.inputs = {last};
  gradient[last] = value(problem_.values[last].num_bytes);
  loss.outputs = {gradient[last]};
  problem_.nodes.push_back(loss);

  for (std::int32_t n = problem_.num_forward - 1; n >= 0; --n) {
    const RecomputeProblem::Node forward = problem_.nodes[n];
    const Layer& layer = layers_[n];
    const std::int32_t output_gradient = gradient[forward.outputs[0]];
    if (output_gradient < 0) continue;  // nothing behind it reaches the loss
    RecomputeProblem::Node node;
    node.time = layer.backward_time < 0 ? 2 * layer.time : layer.backward_time;
    node.workspace_bytes = layer.workspace_bytes;
    node.inputs = {output_gradient};
    if (layer.needs_input) node.inputs.insert(node.inputs.end(), forward.inputs.begin(), forward.inputs.end());
    if (layer.needs_output) node.inputs.push_back(forward.outputs[0]);
    if (layer.pinned_bytes > 0) node.inputs.push_back(forward.outputs[1]);
    if (layer.parameter_bytes > 0) {
      node.outputs.push_back(value(layer.parameter_bytes));
      problem_.values[node.outputs[0]].is_result = true;
    }
    std::vector<RecomputeProblem::Node> sums;
    for (std::int32_t input : forward.inputs) {
      if (!is_made[input]) continue;
      const std::int32_t made = value(problem_.values[input].num_bytes);
      node.outputs.push_back(made);
      if (layer.in_place && problem_.values[made].num_bytes == problem_.values[output_gradient].num_bytes)
        node.take_overs.push_back({made, output_gradient});
      if (layer.in_place && layer.needs_input) node.take_overs.push_back({made, input});
      if (gradient[input] < 0) {
        gradient[input] = made;
        continue;
      }
      // A value read twice has the sum of two gradients.
      RecomputeProblem::Node sum;
      sum.inputs = {gradient[input], made};
      gradient[input] = value(problem_.values[input].num_bytes);
      sum.outputs = {gradient[input]};
      sum.take_overs = {{gradient[input], sum.inputs[0]}, {gradient[input], made}};
      sums.push_back(sum);
    }
    problem_.nodes.push_back(node);
    problem_.nodes.insert(problem_.nodes.end(), sums.begin(), sums.end());
  }
  return problem_;
}

std::vector<std::int32_t> every_node_once(const RecomputeProblem& problem) {
  std::vector<std::int32_t> nodes(problem.nodes.size());
  std::iota(nodes.begin(), nodes.end(), 0);
  return nodes;
}

namespace {

int draw(std::mt19937& random, int least, int most) { return std::uniform_int_distribution<int>(least, most)(random); }

ProblemBuilder::Layer random_layer(std::mt19937& random, int max_bytes) {
  ProblemBuilder::Layer layer;
  layer.time = draw(random, 1, 9);
  layer.num_bytes = draw(random, 1, max_bytes);
  const int reads = draw(random, 0, 9);
  layer.needs_input = reads < 6;
  layer.needs_output = reads >= 5 && reads < 9;
  layer.in_place = draw(random, 0, 2) == 0;
  layer.parameter_bytes = draw(random, 0, 3) == 0 ? draw(random, 1, 3) : 0;
  layer.pinned_bytes = draw(random, 0, 4) == 0 ? 1 : 0;
  layer.workspace_bytes = draw(random, 0, 3) == 0 ? draw(random, 1, max_bytes) : 0;
  return layer;
}

}  // namespace

RecomputeProblem plain_chain(std::mt19937& random, int length, int max_bytes) {
  ProblemBuilder builder;
  std::int32_t last = builder.source(draw(random, 1, max_bytes));
  for (int n = 0; n < length; ++n) {
    ProblemBuilder::Layer layer;
    layer.time = draw(random, 1, 9);
    layer.num_bytes = draw(random, 1, max_bytes);
    layer.needs_output = draw(random, 0, 1) == 0;
    last = builder.layer(layer, {last});
  }
  return builder.finish(last);
}

RecomputeProblem random_chain(std::mt19937& random, int length, int max_bytes) {
  ProblemBuilder builder;
  std::int32_t last = builder.source(draw(random, 1, max_bytes));
  for (int n = 0; n < length; ++n) last = builder.layer(random_layer(random, max_bytes), {last});
  return builder.finish(last);
}

RecomputeProblem random_graph(std::mt19937& random, int num_nodes, int max_bytes) {
  ProblemBuilder builder;
  std::vector<std::int32_t> values = {builder.source(draw(random, 1, max_bytes))};
  for (int n = 0; n < num_nodes; ++n) {
    std::vector<std::int32_t> inputs = {values.back()};
    if (values.size() > 2 && draw(random, 0, 2) == 0) {
      const int back = std::min(static_cast<int>(values.size()) - 1, draw(random, 1, 4));
      inputs.push_back(values[values.size() - 1 - back]);
    }
    ProblemBuilder::Layer layer = random_layer(random, max_bytes);
    values.push_back(builder.layer(layer, inputs));
  }
  return builder.finish(values.back());
}

RecomputeProblem wild_graph(std::mt19937& random, int num_forward, int num_backward) {
  RecomputeProblem problem;
  problem.num_forward = num_forward;
  problem.base_bytes = draw(random, 0, 5);
  auto add_value = [&](bool is_source) {
    RecomputeProblem::Value value;
    value.num_bytes = draw(random, 0, 3);
    value.is_given = is_source && draw(random, 0, 1) == 0;
    value.is_pinned = !is_source && draw(random, 0, 9) == 0;
    value.is_result = !is_source && draw(random, 0, 9) == 0;
    problem.values.push_back(value);
    return static_cast<std::int32_t>(problem.values.size()) - 1;
  };
  for (int s = draw(random, 0, 3); s > 0; --s) add_value(true);
  for (int n = 0; n < num_forward + num_backward; ++n) {
    RecomputeProblem::Node node;
    node.time = draw(random, 0, 5);
    node.workspace_bytes = draw(random, 0, 2);
    node.can_rerun = n < num_forward && draw(random, 0, 5) > 0;
    for (std::int32_t v = 0; v < static_cast<std::int32_t>(problem.values.size()); ++v)
      if (draw(random, 0, static_cast<int>(problem.values.size())) < 2) node.inputs.push_back(v);
    for (int o = draw(random, 0, 2); o > 0; --o) node.outputs.push_back(add_value(false));
    for (std::int32_t output : node.outputs)
      for (std::int32_t input : node.inputs)
        if (problem.values[output].num_bytes == problem.values[input].num_bytes)
          node.take_overs.push_back({output, input});
    problem.nodes.push_back(node);
  }
  return problem;
}

RecomputeProblem equal_chain(int length) {
  ProblemBuilder builder;
  std::int32_t last = builder.source(1);
  for (int n = 0; n < length; ++n) last = builder.layer({}, {last});
  return builder.finish(last);
}

RecomputeProblem convolutions(int num_pairs) {
  ProblemBuilder builder;
  std::int64_t image = 64 * 56 * 56;
  std::int32_t last = builder.source(3 * 224 * 224);
  for (int n = 0; n < num_pairs; ++n) {
    if (n > 0 && num_pairs >= 8 && n % (num_pairs / 4) == 0) image /= 2;
    ProblemBuilder::Layer convolution;
    convolution.time = 20;
    convolution.num_bytes = image;
    convolution.parameter_bytes = 64 * 64 * 9;
    convolution.workspace_bytes = image / 4;
    last = builder.layer(convolution, {last});
    ProblemBuilder::Layer norm;
    norm.time = 2;
    norm.num_bytes = image;
    norm.needs_output = true;
    norm.pinned_bytes = 512;
    last = builder.layer(norm, {last});
  }
  return builder.finish(last);
}

RecomputeProblem transformer(int num_blocks) {
  ProblemBuilder builder;
  constexpr std::int64_t width = 1024;
  std::int32_t x = builder.source(width);
  ProblemBuilder::Layer embed;
  embed.num_bytes = width;
  x = builder.layer(embed, {x});
  for (int n = 0; n < num_blocks; ++n) {
    ProblemBuilder::Layer norm;
    norm.time = 0.2;
    norm.num_bytes = width;
    norm.pinned_bytes = 8;
    const std::int32_t normed = builder.layer(norm, {x});
    ProblemBuilder::Layer widen;
    widen.time = 4;
    widen.num_bytes = 4 * width;
    widen.parameter_bytes = 256;
    const std::int32_t wide = builder.layer(widen, {normed});
    ProblemBuilder::Layer gelu;
    gelu.time = 0.4;
    gelu.num_bytes = 4 * width;
    gelu.in_place = false;
    const std::int32_t active = builder.layer(gelu, {wide});
    ProblemBuilder::Layer narrow = widen;
    narrow.num_bytes = width;
    const std::int32_t added = builder.layer(narrow, {active});
    ProblemBuilder::Layer add;
    add.time = 0.1;
    add.num_bytes = width;
    add.needs_input = false;
    add.in_place = true;
    x = builder.layer(add, {x, added});
  }
  return builder.finish(x);
}

namespace {

/// A convolution that keeps the image's size, and its norm where there is one.
std::int32_t convolution_of(ProblemBuilder& builder, const UNet& net, std::int32_t input, std::int64_t num_bytes,
                            double time) {
  ProblemBuilder::Layer convolution;
  convolution.time = time;
  convolution.num_bytes = num_bytes;
  std::int32_t last = builder.layer(convolution, {input});
  if (!net.norms) return last;
  ProblemBuilder::Layer norm;
  norm.time = 1;
  norm.num_bytes = num_bytes;
  norm.in_place = true;
  return builder.layer(norm, {last});
}

/// What reads neither what it read nor what it wrote when its gradient is computed.
ProblemBuilder::Layer moving_layer(std::int64_t num_bytes, double time) {
  ProblemBuilder::Layer layer;
  layer.time = time;
  layer.num_bytes = num_bytes;
  layer.needs_input = false;
  return layer;
}

}  // namespace

RecomputeProblem u_net(const UNet& net) {
  constexpr double convolution_time = 20;
  ProblemBuilder builder;
  std::int64_t bytes = net.image;
  std::int32_t last = builder.source(std::max<std::int64_t>(1, net.image / 4));
  std::vector<std::int32_t> skips;
  for (int stage = 0; stage < net.depth; ++stage) {
    for (int c = 0; c < net.convolutions; ++c) last = convolution_of(builder, net, last, bytes, convolution_time);
    skips.push_back(last);
    bytes = std::max<std::int64_t>(1, bytes / 2);
    last = builder.layer(moving_layer(bytes, 1), {last});
  }
  for (int c = 0; c < net.convolutions; ++c) last = convolution_of(builder, net, last, bytes, convolution_time);
  for (int stage = net.depth - 1; stage >= 0; --stage) {
    bytes = std::max<std::int64_t>(1, net.image >> stage);
    last = builder.layer(moving_layer(bytes, 1), {last});
    last = builder.layer(moving_layer(net.concatenates ? 2 * bytes : bytes, 1), {skips[stage], last});
    for (int c = 0; c < net.convolutions; ++c)
      last = convolution_of(builder, net, last, bytes,
                            net.concatenates && c == 0 ? 2 * convolution_time : convolution_time);
  }
  ProblemBuilder::Layer head;
  head.num_bytes = std::max<std::int64_t>(1, net.image / 4);
  return builder.finish(builder.layer(head, {last}));
}

RecomputeProblem squeeze_and_excite(int num_blocks) {
  constexpr std::int64_t image = 16;
  ProblemBuilder builder;
  std::int32_t x = builder.source(image);
  for (int n = 0; n < num_blocks; ++n) {
    ProblemBuilder::Layer convolution;
    convolution.time = 20;
    convolution.num_bytes = image;
    const std::int32_t features = builder.layer(convolution, {x});
    const std::int32_t squeezed = builder.layer(moving_layer(1, 1), {features});
    ProblemBuilder::Layer linear;
    linear.time = 0.1;
    const std::int32_t wide = builder.layer(linear, {squeezed});
    ProblemBuilder::Layer gate;
    gate.time = 0.1;
    gate.needs_input = false;
    gate.needs_output = true;
    const std::int32_t gates = builder.layer(gate, {wide});
    ProblemBuilder::Layer multiply;
    multiply.time = 1;
    multiply.num_bytes = image;
    x = builder.layer(multiply, {features, gates});
  }
  return builder.finish(x);
}

RecomputeProblem dense_block(int num_layers) {
  constexpr std::int64_t growth = 2;
  ProblemBuilder builder;
  std::int32_t x = builder.source(growth);
  ProblemBuilder::Layer stem;
  stem.time = 20;
  stem.num_bytes = growth;
  x = builder.layer(stem, {x});
  for (int n = 1; n <= num_layers; ++n) {
    ProblemBuilder::Layer convolution;
    convolution.time = 10 * n;
    convolution.num_bytes = growth;
    const std::int32_t made = builder.layer(convolution, {x});
    x = builder.layer(moving_layer(growth * (n + 1), 1), {x, made});
  }
  return builder.finish(x);
}

RecomputeProblem residual_blocks(int num_blocks) {
  constexpr std::int64_t image = 8;
  ProblemBuilder builder;
  ProblemBuilder::Layer convolution;
  convolution.time = 20;
  convolution.num_bytes = image;
  ProblemBuilder::Layer norm;
  norm.num_bytes = image;
  ProblemBuilder::Layer add = moving_layer(image, 1);
  add.needs_output = true;  // a ReLU is in it
  add.in_place = true;
  std::int32_t x = builder.source(image);
  for (int n = 0; n < num_blocks; ++n) {
    const std::int32_t normed = builder.layer(norm, {builder.layer(convolution, {x})});
    const std::int32_t made = builder.layer(convolution, {normed});
    const std::int32_t shortcut = n == 0 ? builder.layer(convolution, {x}) : x;
    x = builder.layer(add, {made, shortcut});
  }
  return builder.finish(x);
}

RecomputeProblem inverted_residuals(int num_blocks) {
  constexpr std::int64_t narrow = 2, wide = 6 * narrow;
  ProblemBuilder builder;
  ProblemBuilder::Layer expand, depthwise, project, norm;
  expand.time = project.time = 12;
  depthwise.time = 5;
  expand.num_bytes = depthwise.num_bytes = norm.num_bytes = wide;
  project.num_bytes = narrow;
  ProblemBuilder::Layer add = moving_layer(narrow, 1);
  add.in_place = true;
  std::int32_t x = builder.source(narrow);
  for (int n = 0; n < num_blocks; ++n) {
    const std::int32_t expanded = builder.layer(norm, {builder.layer(expand, {x})});
    const std::int32_t filtered = builder.layer(norm, {builder.layer(depthwise, {expanded})});
    const std::int32_t made = builder.layer(project, {filtered});
    x = n == 0 ? made : builder.layer(add, {made, x});
  }
  return builder.finish(x);
}

}  // namespace trainer::recompute_problems
