#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "engine/program/recompute/search.h"

/// Problems to search in, as networks make them.
namespace trainer::recompute_problems {

/// Writes a problem down: forward nodes first, then the loss, then a backward node for each forward node in reverse.
class ProblemBuilder {
 public:
  /// A value that no node makes: the batch.
  std::int32_t source(std::int64_t num_bytes);

  struct Layer {
    double time = 1;
    std::int64_t num_bytes = 1;
    bool needs_input = true;           ///< its backward node reads what it read
    bool needs_output = false;         ///< its backward node reads what it wrote
    bool in_place = false;             ///< its output may take over its first input
    double backward_time = -1;         ///< below 0: twice its own
    std::int64_t parameter_bytes = 0;  ///< of the gradient that its backward node leaves
    std::int64_t pinned_bytes = 0;     ///< of a second output that its backward node and its further runs read
    std::int64_t workspace_bytes = 0;
  };
  /// A forward node; returns its output.
  std::int32_t layer(const Layer& layer, const std::vector<std::int32_t>& inputs);

  /// Ends the forward pass with a loss over `last` and appends the backward pass.
  RecomputeProblem finish(std::int32_t last);

 private:
  std::int32_t value(std::int64_t num_bytes);

  RecomputeProblem problem_;
  std::vector<Layer> layers_;
};

std::vector<std::int32_t> every_node_once(const RecomputeProblem& problem);

/// `length` layers, one behind the other, of random times and sizes, each with one output and nothing in place.
RecomputeProblem plain_chain(std::mt19937& random, int length, int max_bytes);

/// The same with in-place layers, workspaces, gradients of parameters and pinned values.
RecomputeProblem random_chain(std::mt19937& random, int length, int max_bytes);

/// `num_nodes` forward nodes that read one or two earlier values.
RecomputeProblem random_graph(std::mt19937& random, int num_nodes, int max_bytes);

/// What no network looks like: several outputs and sources, given and pinned values and results anywhere, nodes that
/// must not run again, and backward nodes that read whatever there is.
RecomputeProblem wild_graph(std::mt19937& random, int num_forward, int num_backward);

/// `length` equal layers: forward 1, backward 2, one byte each.
RecomputeProblem equal_chain(int length);
/// [convolution, norm with ReLU] pairs; every second pair halves the image and doubles the channels at last.
RecomputeProblem convolutions(int num_pairs);
/// [norm, linear C -> 4C, gelu, linear 4C -> C, add] blocks.
RecomputeProblem transformer(int num_blocks);

/// A U-Net of `depth` halvings: on the way down `convolutions` to a stage and pooling, on the way up a doubling, its
/// concatenation with what the stage of that size made, and convolutions again. With `norms` each convolution has a
/// norm with ReLU behind it. The image is `image` bytes at the first stage, half of it at each further one.
struct UNet {
  int depth = 2, convolutions = 1;
  bool norms = false;
  std::int64_t image = 8;
  bool concatenates = true;  ///< else the two are added up
};
RecomputeProblem u_net(const UNet& net);
/// Blocks of [convolution, squeeze, linear, gate, multiply with what the convolution made].
RecomputeProblem squeeze_and_excite(int num_blocks);
/// Layers that read the concatenation of all before them in the block.
RecomputeProblem dense_block(int num_layers);

/// Residual blocks of [convolution, norm, convolution, add]; the first one's shortcut is a convolution.
RecomputeProblem residual_blocks(int num_blocks);
/// MobileNetV2's [convolution to six times the channels, norm, depthwise convolution, norm, convolution back, add]; the
/// first without the sum.
RecomputeProblem inverted_residuals(int num_blocks);

}  // namespace trainer::recompute_problems
