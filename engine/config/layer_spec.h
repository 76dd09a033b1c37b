#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/rotation.h"
#include "engine/source_location.h"

namespace trainer {

/// How weights start. `pytorch` is what torch.nn's module of that layer does by default: Kaiming-uniform with
/// a = √5 for linear and conv weights, uniform(±1/√fan_in) for their biases, N(0, 1) for embeddings.
enum class Initialization : std::uint8_t {
  pytorch,
  kaiming_uniform,
  kaiming_normal,
  xavier_uniform,
  xavier_normal,
  normal,
  zeros
};

enum class Activation : std::uint8_t { relu, gelu, silu, tanh, sigmoid, leaky_relu, relu6, hardswish, hardsigmoid };
enum class GeluApproximation : std::uint8_t { none, tanh };

enum class Interpolation : std::uint8_t { nearest, bilinear };
/// What stands in the border of a padded image.
enum class PadMode : std::uint8_t {
  zeros,      ///< one number
  reflect,    ///< the image mirrored at its first and last pixels, which are not repeated
  replicate,  ///< its first and last pixels
};

using Pair = std::array<std::int64_t, 2>;   ///< (height, width)
using Sides = std::array<std::int64_t, 4>;  ///< (top, bottom, left, right)

struct LinearSpec {
  std::int64_t out = 0;
  bool bias = true;
  std::optional<Initialization> init;           ///< model.init where absent
  std::optional<std::int64_t> residual_layers;  ///< whose sum it is a term of: its weight starts divided by their root
};
/// A learned row for each index, and for each place of a sequence.
struct EmbeddingSpec {
  std::int64_t num = 0;
  std::int64_t dim = 0;
  std::optional<Initialization> init;
};
struct PositionEmbeddingSpec {
  std::int64_t length = 0;
  std::optional<Initialization> init;
};
/// One of `num` learned rows, the first, for all tokens.
struct TokenTypeEmbeddingSpec {
  std::int64_t num = 2;
  std::optional<Initialization> init;
};
struct Conv2dSpec {
  std::int64_t out = 0;
  Pair kernel{1, 1};
  Pair stride{1, 1};
  Pair padding{0, 0};
  Pair dilation{1, 1};
  std::int64_t groups = 1;
  bool bias = true;
  std::optional<Initialization> init;
};
struct ConvTranspose2dSpec {
  std::int64_t out = 0;
  Pair kernel{1, 1};
  Pair stride{1, 1};
  Pair padding{0, 0};
  Pair output_padding{0, 0};
  Pair dilation{1, 1};
  std::int64_t groups = 1;
  bool bias = true;
  std::optional<Initialization> init;
};
/// batchnorm2d and batchnorm1d.
struct BatchNormSpec {
  bool of_images = true;
  double eps = 1e-5;
  double momentum = 0.1;
  bool affine = true;
};
struct LayerNormSpec {
  double eps = 1e-5;
  bool affine = true;
  std::optional<std::int64_t> heads;  ///< groups of features that are normalised each by itself; one where absent
};
struct RmsNormSpec {
  double eps = 0x1p-23;  ///< what PyTorch takes for f32
  bool affine = true;
  std::optional<std::int64_t> heads;
};
/// groupnorm, and instancenorm2d, each of whose channels is a group.
struct GroupNormSpec {
  bool by_channel = false;
  std::int64_t groups = 1;  ///< not where by_channel
  double eps = 1e-5;
  bool affine = true;
};
/// Of one input with queries, keys and values, or of three.
struct AttentionSpec {
  std::int64_t heads = 1;
  std::optional<std::int64_t> kv_heads;  ///< heads where absent
  bool causal = false;
  std::optional<std::int64_t> window;  ///< causal only: how many positions a query sees; all where absent
  double dropout = 0;
  std::optional<double> rotary_base;  ///< no rotary positions where absent
  std::optional<double> rotary_factor, rotary_low_freq_factor, rotary_high_freq_factor;
  std::optional<std::int64_t> rotary_original_length;

  /// How they are stretched.
  RotaryStretch rotary_stretch() const {
    const RotaryStretch defaults;
    return {.factor = rotary_factor.value_or(defaults.factor),
            .low_freq_factor = rotary_low_freq_factor.value_or(defaults.low_freq_factor),
            .high_freq_factor = rotary_high_freq_factor.value_or(defaults.high_freq_factor),
            .original_length = rotary_original_length.value_or(defaults.original_length)};
  }
};
struct ActivationSpec {
  Activation function = Activation::relu;
  GeluApproximation approximate = GeluApproximation::none;  ///< gelu only
  double slope = 0;                                         ///< leaky_relu only: below 0
};
/// swiglu and geglu: of halves of its input's last dimension, or of two inputs, gates and what they gate.
struct GluSpec {
  Activation function = Activation::silu;
  GeluApproximation approximate = GeluApproximation::none;  ///< geglu only
};
/// A learned slope below 0, one or one for each channel.
struct PreluSpec {
  double init = 0.25;
  std::int64_t num = 1;
};
struct MaxPool2dSpec {
  Pair kernel{2, 2};
  Pair stride{2, 2};  ///< the kernel where not given
  Pair padding{0, 0};
  bool ceil_mode = false;
};
struct AvgPool2dSpec {
  Pair kernel{2, 2};
  Pair stride{2, 2};
  Pair padding{0, 0};
  bool ceil_mode = false;
  bool count_include_pad = true;
};
struct AdaptiveAvgPool2dSpec {
  Pair size{1, 1};  ///< of its output
};
/// One of scale and size is given.
struct UpsampleSpec {
  std::optional<Pair> scale;
  std::optional<Pair> size;
  Interpolation mode = Interpolation::nearest;
  bool align_corners = false;  ///< bilinear only
};
struct PadSpec {
  Sides size{0, 0, 0, 0};
  PadMode mode = PadMode::zeros;
  double value = 0;  ///< zeros only
};
/// Images cut into patches, each projected to a token: (H, W, C) becomes (H / size · W / size, dim).
struct PatchEmbeddingSpec {
  Pair size{16, 16};
  std::int64_t dim = 0;
  bool bias = true;
  std::optional<Initialization> init;
};
/// A learned token in front of the others.
struct ClassTokenSpec {};
/// One of a sample's tokens (T, C): (C).
struct SelectTokenSpec {
  std::int64_t index = 0;  ///< from 0, or from −1 backwards
};
/// Some of the channels, those from `first` on.
struct SliceSpec {
  std::int64_t first = 0, size = 1;
};
struct GlobalAvgPoolSpec {};
struct FlattenSpec {};
struct DropoutSpec {
  double p = 0.5;
};

/// The sum of what `from:` names.
struct AddSpec {};
/// The product of what `from:` names.
struct MultiplySpec {};
/// The channels of what `from:` names, one behind the other.
struct ConcatSpec {};

struct LayerSpec;
/// y = layers(x) + shortcut(x); the identity where there is no shortcut.
struct ResidualSpec {
  std::vector<LayerSpec> layers;
  std::vector<LayerSpec> shortcut;
};
struct SequentialSpec {
  std::vector<LayerSpec> layers;
};
/// `times` copies of `layers` one after the other, each with parameters of its own.
struct RepeatSpec {
  std::int64_t times = 1;
  std::vector<LayerSpec> layers;
};

using LayerVariant =
    std::variant<LinearSpec, EmbeddingSpec, PositionEmbeddingSpec, TokenTypeEmbeddingSpec, Conv2dSpec,
                 ConvTranspose2dSpec, BatchNormSpec, LayerNormSpec, RmsNormSpec, GroupNormSpec, AttentionSpec,
                 ActivationSpec, GluSpec, MaxPool2dSpec, AvgPool2dSpec, AdaptiveAvgPool2dSpec, UpsampleSpec, PadSpec,
                 PatchEmbeddingSpec, ClassTokenSpec, SelectTokenSpec, SliceSpec, GlobalAvgPoolSpec, FlattenSpec,
                 DropoutSpec, PreluSpec, AddSpec, MultiplySpec, ConcatSpec, ResidualSpec, SequentialSpec, RepeatSpec>;

/// One entry of `model.layers`, as written.
struct LayerSpec {
  std::string kind;  ///< the key: "conv2d", "relu"
  std::string name;  ///< of `name:`; empty where not given
  /// Of `from:`, the layers whose outputs it takes, by name or path; empty where not given: the layer before it. As
  /// many as its LayerKind takes.
  std::vector<std::string> from;
  std::string share;  ///< of `share:`, the layer whose parameters it uses, by name or path; empty where not given
  LayerVariant spec;
  SourceLocation location;
  SourceLocation from_location, share_location;  ///< where these are given
};

}  // namespace trainer
