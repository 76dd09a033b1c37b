#include "engine/config/fields/layer_fields.h"

#include <algorithm>

#include <fmt/format.h>

namespace trainer {
namespace {

using LayerField = Field<LayerSpec>;

template <class Spec, class Member, class MemberRule>
LayerField of(Member Spec::*member, const std::string& key, MemberRule rule, const std::string& help) {
  const auto access = [member](auto& layer) -> auto& { return std::get<Spec>(layer.spec).*member; };
  return field<LayerSpec>(key, access, std::move(rule), help);
}

template <class Spec>
LayerField list(std::vector<LayerSpec> Spec::*member, const std::string& key, const std::string& help) {
  const auto access = [member](auto& layer) -> auto& { return std::get<Spec>(layer.spec).*member; };
  return layers_field<LayerSpec>(key, access, help);
}

// Of several kinds.
template <class Spec>
LayerField bias_field() {
  return of(&Spec::bias, "bias", boolean(), "Whether a bias is added").also_called({"use_bias"});
}
template <class Spec>
LayerField init_field() {
  return of(&Spec::init, "init", initialization_choices(), "How the weights start").defaults_to("`model.init`");
}
template <class Spec>
LayerField eps_field() {
  return of(&Spec::eps, "eps", number_above(0.0), "Added to the variance");
}
template <class Spec>
LayerField affine_field() {
  return of(&Spec::affine, "affine", boolean(), "Whether a scale and a shift are learned");
}

template <class Spec>
LayerField approximate_field() {
  return of(&Spec::approximate, "approximate",
            choice<GeluApproximation>({{"none", GeluApproximation::none, "exact, with the error function"},
                                       {"tanh", GeluApproximation::tanh, "the tanh approximation"}}),
            "Which formula is used");
}

LayerKind linear() {
  using Spec = LinearSpec;
  return {"linear",
          "y = x Wᵀ + b over the last dimension",
          "linear: {out: 10}",
          Spec{},
          {
              of(&Spec::out, "out", integer(1), "Number of output features")
                  .required()
                  .is(SizeOf::width)
                  .also_called({"out_features", "units", "features", "size"}),
              bias_field<Spec>(),
              init_field<Spec>(),
              of(&Spec::residual_layers, "residual_layers", integer(1),
                 "GPT-2's N: how many layers add to one stream, of which this is one; its weight starts divided by √N")
                  .defaults_to("1"),
          }};
}

LayerKind embedding() {
  using Spec = EmbeddingSpec;
  return {"embedding",
          "A learned row for each index",
          "embedding: {num: 50257, dim: 384}",
          Spec{},
          {
              of(&Spec::num, "num", integer(1), "How many rows: indices are below it")
                  .required()
                  .also_called({"num_embeddings", "vocab", "vocab_size"}),
              of(&Spec::dim, "dim", integer(1), "Number of features of a row")
                  .required()
                  .is(SizeOf::width)
                  .also_called({"embedding_dim", "out", "features"}),
              init_field<Spec>(),
          }};
}

LayerKind position_embedding() {
  using Spec = PositionEmbeddingSpec;
  return {"position_embedding",
          "Adds a learned row for each place of a sequence (T, C)",
          "position_embedding: {length: 256}",
          Spec{},
          {
              of(&Spec::length, "length", integer(1), "How many rows: the longest sequence")
                  .required()
                  .also_called({"num", "num_embeddings", "max_length", "block_size"}),
              init_field<Spec>(),
          }};
}

LayerKind token_type_embedding() {
  using Spec = TokenTypeEmbeddingSpec;
  return {"token_type_embedding",
          "Adds a learned row to each token: BERT's for its type, which is 0 of all tokens",
          "token_type_embedding: {num: 2}",
          Spec{},
          {
              of(&Spec::num, "num", integer(1), "How many types have a row; those of others than 0 stay as they are")
                  .also_called({"type_vocab_size", "num_embeddings", "num_types"}),
              init_field<Spec>(),
          }};
}

LayerKind conv2d() {
  using Spec = Conv2dSpec;
  return {"conv2d",
          "Convolution of images (H, W, C)",
          "conv2d: {out: 32, kernel: 3, padding: 1}",
          Spec{},
          {
              of(&Spec::out, "out", integer(1), "Number of output channels")
                  .required()
                  .is(SizeOf::width)
                  .also_called({"out_channels", "filters", "channels"}),
              of(&Spec::kernel, "kernel", pair(1), "Height and width of the kernel")
                  .required()
                  .also_called({"kernel_size"}),
              of(&Spec::stride, "stride", pair(1), "Step of the kernel").also_called({"strides"}),
              of(&Spec::padding, "padding", pair(0), "Zeros added at each side").also_called({"pad"}),
              of(&Spec::dilation, "dilation", pair(1), "Distance between the kernel's elements"),
              of(&Spec::groups, "groups", integer(1), "Groups of channels that are convolved apart; divides `out`"),
              bias_field<Spec>(),
              init_field<Spec>(),
          }};
}

LayerKind conv_transpose2d() {
  using Spec = ConvTranspose2dSpec;
  return {"conv_transpose2d",
          "Transposed convolution of images (H, W, C): with a stride it makes them larger",
          "conv_transpose2d: {out: 32, kernel: 2, stride: 2}",
          Spec{},
          {
              of(&Spec::out, "out", integer(1), "Number of output channels")
                  .required()
                  .is(SizeOf::width)
                  .also_called({"out_channels", "filters", "channels"}),
              of(&Spec::kernel, "kernel", pair(1), "Height and width of the kernel")
                  .required()
                  .also_called({"kernel_size"}),
              of(&Spec::stride, "stride", pair(1), "How far apart the kernel is put for neighbouring pixels")
                  .also_called({"strides"}),
              of(&Spec::padding, "padding", pair(0), "Rows and columns left out at each side of the output")
                  .also_called({"pad"}),
              of(&Spec::output_padding, "output_padding", pair(0),
                 "Rows and columns that the output has more at its end; below `stride`"),
              of(&Spec::dilation, "dilation", pair(1), "Distance between the kernel's elements"),
              of(&Spec::groups, "groups", integer(1), "Groups of channels that are convolved apart; divides `out`"),
              bias_field<Spec>(),
              init_field<Spec>(),
          }};
}

LayerKind batchnorm(bool of_images) {
  using Spec = BatchNormSpec;
  const std::string name = of_images ? "batchnorm2d" : "batchnorm1d";
  return {name,
          of_images ? "Batch normalization of images per channel, with running statistics for evaluation"
                    : "Batch normalization over the last dimension of features (C) or of rows of them (L, C)",
          name + ": {momentum: 0.1}",
          Spec{.of_images = of_images},
          {
              eps_field<Spec>(),
              of(&Spec::momentum, "momentum", fraction(), "Share of the new statistics in the running ones"),
              affine_field<Spec>(),
          },
          // On its neighbours.
          [](const LayerVariant&) { return true; }};
}

template <class Spec>
LayerField norm_heads_field() {
  return of(&Spec::heads, "heads", integer(1),
            "How many groups of the features are normalised, each by itself, with one scale for all")
      .defaults_to("1")
      .also_called({"num_heads", "groups", "n_head"});
}

LayerKind layernorm() {
  using Spec = LayerNormSpec;
  return {"layernorm",
          "Layer normalization over the last dimension",
          "layernorm: {eps: 1e-5}",
          Spec{},
          {eps_field<Spec>(), affine_field<Spec>(), norm_heads_field<Spec>()}};
}

LayerKind rmsnorm() {
  using Spec = RmsNormSpec;
  return {"rmsnorm",
          "Division by the root mean square over the last dimension",
          "rmsnorm: {eps: 1e-6}",
          Spec{},
          {of(&Spec::eps, "eps", number_above(0.0), "Added to the mean of the squares"),
           of(&Spec::affine, "affine", boolean(), "Whether a scale is learned"), norm_heads_field<Spec>()}};
}

LayerKind groupnorm() {
  using Spec = GroupNormSpec;
  return {"groupnorm",
          "Normalization of each sample over groups of channels and all dimensions before them",
          "groupnorm: {groups: 32}",
          Spec{},
          {of(&Spec::groups, "groups", integer(1), "How many groups; divides the channels")
               .required()
               .also_called({"num_groups"}),
           eps_field<Spec>(), affine_field<Spec>()}};
}

LayerKind instancenorm2d() {
  using Spec = GroupNormSpec;
  return {"instancenorm2d",
          "Normalization of each sample and channel of images over height and width",
          "instancenorm2d: {affine: true}",
          Spec{.by_channel = true, .affine = false},
          {eps_field<Spec>(), affine_field<Spec>()}};
}

LayerKind attention() {
  using Spec = AttentionSpec;
  LayerKind kind{
      "attention",
      "Each position's mean of the values of others, by softmax(q kᵀ / √width) for each head: of queries, keys and "
      "values side by side in one input, or from three; of images each pixel is a position",
      "attention: {heads: 6, causal: true}",
      Spec{},
      {
          of(&Spec::heads, "heads", integer(1), "Heads of queries").required().also_called({"num_heads", "n_head"}),
          of(&Spec::kv_heads, "kv_heads", integer(1),
             "Heads of keys and values, each for as many heads of queries; divides `heads`")
              .defaults_to("`heads`")
              .also_called({"num_kv_heads", "num_key_value_heads", "groups"}),
          of(&Spec::causal, "causal", boolean(), "Whether a position sees itself and those before it alone")
              .also_called({"is_causal"}),
          of(&Spec::window, "window", integer(1), "causal: how many positions it sees, itself and the last before it")
              .defaults_to("all")
              .also_called({"sliding_window"}),
          of(&Spec::dropout, "dropout", number_below(0.0, 1.0),
             "Probability that a weight is set to zero while training; the others are divided by 1 − it")
              .also_called({"p", "attn_pdrop", "attention_dropout"}),
          of(&Spec::rotary_base, "rotary_base", number_above(0.0),
             "Rotates queries and keys by their positions, the i-th pair of a head's features by position · "
             "rotary_base^(−2i / width); Llama's is 10000")
              .defaults_to("no rotation")
              .also_called({"rope_theta", "rope_base", "rotary", "rope"}),
          of(&Spec::rotary_factor, "rotary_factor", number_at_least(1.0),
             "Stretches slow rotations as Llama 3.1 (`rope_scaling` of type llama3): those of fewer than "
             "rotary_low_freq_factor turns in rotary_original_length positions turn so many times slower, those of "
             "more than rotary_high_freq_factor turns as before, what is between by a share of both")
              .defaults_to("1")
              .also_called({"rope_scaling", "rope_factor", "factor", "scaling_factor"}),
          of(&Spec::rotary_low_freq_factor, "rotary_low_freq_factor", number_above(0.0),
             "rotary_factor: turns below which a rotation is slow")
              .defaults_to("1")
              .also_called({"low_freq_factor"}),
          of(&Spec::rotary_high_freq_factor, "rotary_high_freq_factor", number_above(0.0),
             "rotary_factor: turns above which a rotation is fast")
              .defaults_to("4")
              .also_called({"high_freq_factor"}),
          of(&Spec::rotary_original_length, "rotary_original_length", integer(1),
             "rotary_factor: the positions that were trained before")
              .defaults_to("8192")
              .also_called({"original_max_position_embeddings"}),
      },
      // Its place in the batch decides what is drawn.
      [](const LayerVariant& spec) { return std::get<AttentionSpec>(spec).dropout > 0; }};
  kind.min_inputs = kind.max_inputs = 3;
  return kind;
}

LayerKind activation(Activation function, const std::string& name, std::string help) {
  ActivationSpec initial;
  initial.function = function;
  LayerKind kind{name, std::move(help), name, initial, {}};
  if (function == Activation::gelu) {
    kind.fields.push_back(approximate_field<ActivationSpec>());
    kind.example = "gelu: {approximate: tanh}";
  }
  if (function == Activation::leaky_relu) {
    std::get<ActivationSpec>(kind.initial).slope = 0.01;
    kind.fields.push_back(of(&ActivationSpec::slope, "slope", number_of_f32(), "Of what is below 0")
                              .also_called({"negative_slope", "alpha"}));
    kind.example = "leaky_relu: {slope: 0.1}";
  }
  return kind;
}

LayerKind glu(Activation function, const std::string& name, const std::string& formula) {
  LayerKind kind{
      name,
      fmt::format("{} of the first half of the channels times the second half, or of one layer times another", formula),
      name + ": {from: [gate, up]}",
      GluSpec{.function = function},
      {}};
  kind.min_inputs = kind.max_inputs = 2;
  if (function == Activation::gelu) kind.fields.push_back(approximate_field<GluSpec>());
  return kind;
}

LayerKind prelu() {
  using Spec = PreluSpec;
  return {"prelu",
          "x where it is above 0, else x times a learned slope",
          "prelu: {num: 32}",
          Spec{},
          {
              of(&Spec::init, "init", number_of_f32(), "What the slopes start as"),
              of(&Spec::num, "num", integer(1), "How many slopes: 1, or one for each channel")
                  .also_called({"num_parameters"}),
          }};
}

template <class Spec>
std::vector<LayerField> pooling_fields() {
  std::vector<LayerField> fields;
  fields.push_back(of(&Spec::kernel, "kernel", pair(1), "Height and width of the window")
                       .also_called({"kernel_size", "size", "pool_size"}));
  fields.push_back(
      of(&Spec::stride, "stride", pair(1), "Step of the window").defaults_to("the kernel").also_called({"strides"}));
  fields.push_back(
      of(&Spec::padding, "padding", pair(0), "Added at each side; at most half the kernel").also_called({"pad"}));
  fields.push_back(of(&Spec::ceil_mode, "ceil_mode", boolean(),
                      "Whether a last window that reaches beyond the image and its padding is taken too"));
  return fields;
}

LayerKind maxpool2d() {
  return {"maxpool2d", "Largest value of each window", "maxpool2d: {kernel: 2}", MaxPool2dSpec{},
          pooling_fields<MaxPool2dSpec>()};
}

LayerKind avgpool2d() {
  LayerKind kind{"avgpool2d", "Mean of each window", "avgpool2d: {kernel: 2}", AvgPool2dSpec{},
                 pooling_fields<AvgPool2dSpec>()};
  kind.fields.push_back(
      of(&AvgPool2dSpec::count_include_pad, "count_include_pad", boolean(), "Whether padding counts in the mean"));
  return kind;
}

LayerKind adaptive_avgpool2d() {
  return {"adaptive_avgpool2d",
          "Means of windows that are as large as makes the output of that height and width",
          "adaptive_avgpool2d: {size: 7}",
          AdaptiveAvgPool2dSpec{},
          {of(&AdaptiveAvgPool2dSpec::size, "size", pair(1), "Height and width of the output")
               .required()
               .also_called({"output_size", "out"})}};
}

LayerKind upsample() {
  using Spec = UpsampleSpec;
  return {
      "upsample",
      "A larger image, or of any size, of the same channels",
      "upsample: {scale: 2, mode: bilinear}",
      Spec{},
      {
          of(&Spec::scale, "scale", pair(1), "How many times the height and the width; either this or `size`")
              .defaults_to("by `size`")
              .also_called({"scale_factor", "factor"}),
          of(&Spec::size, "size", pair(1), "Height and width of the output; either this or `scale`")
              .defaults_to("by `scale`")
              .also_called({"output_size"}),
          of(&Spec::mode, "mode",
             choice<Interpolation>({{"nearest", Interpolation::nearest, "the nearest pixel"},
                                    {"bilinear", Interpolation::bilinear, "between the four around it", {"linear"}}}),
             "What a pixel is made of")
              .also_called({"interpolation"}),
          of(&Spec::align_corners, "align_corners", boolean(),
             "bilinear: whether the centres of the corner pixels stay where they are, instead of the borders"),
      }};
}

LayerKind pad() {
  using Spec = PadSpec;
  using Type = PadMode;
  return {
      "pad",
      "A border around the image",
      "pad: {size: 1, mode: reflect}",
      Spec{},
      {
          of(&Spec::size, "size", sides(0), "How many rows and columns are added at each side")
              .required()
              .also_called({"padding"}),
          of(&Spec::mode, "mode",
             choice<Type>({{"zeros", Type::zeros, "of `value`", {"constant"}},
                           {"reflect", Type::reflect, "mirrored at the edge, which is not repeated", {"reflection"}},
                           {"replicate", Type::replicate, "the edge repeated", {"edge", "replication"}}}),
             "What stands there")
              .also_called({"padding_mode"}),
          of(&Spec::value, "value", number_of_f32(), "zeros: the number that stands there"),
      }};
}

LayerKind patch_embedding() {
  using Spec = PatchEmbeddingSpec;
  return {"patch_embedding",
          "Images cut into patches, each projected to a token: (H, W, C) becomes (tokens, dim)",
          "patch_embedding: {size: 16, dim: 768}",
          Spec{},
          {
              of(&Spec::size, "size", pair(1), "Height and width of a patch")
                  .required()
                  .also_called({"patch_size", "kernel", "kernel_size", "patch"}),
              of(&Spec::dim, "dim", integer(1), "Numbers in a token")
                  .required()
                  .is(SizeOf::width)
                  .also_called({"out", "embed_dim", "hidden_dim", "out_channels"}),
              bias_field<Spec>(),
              init_field<Spec>(),
          }};
}

LayerKind select_token() {
  return {"select_token",
          "One of the tokens: (tokens, C) becomes (C)",
          "select_token: {index: 0}",
          SelectTokenSpec{},
          {of(&SelectTokenSpec::index, "index", any_integer(), "Which: 0 is the first, −1 the last")}};
}

LayerKind slice() {
  using Spec = SliceSpec;
  return {"slice",
          "Some of the channels",
          "slice: {first: 64, size: 32}",
          Spec{},
          {of(&Spec::first, "first", integer(0), "The first of them, from 0").also_called({"start", "begin"}),
           of(&Spec::size, "size", integer(1), "How many").required().also_called({"channels", "count"})}};
}

LayerKind dropout() {
  return {"dropout",
          "Sets elements to zero at random while training and scales the rest by 1 / (1 − p)",
          "dropout: {p: 0.5}",
          DropoutSpec{},
          {of(&DropoutSpec::p, "p", number_below(0.0, 1.0), "Probability of zero").also_called({"rate", "prob"})},
          // Its place in the batch decides what is drawn.
          [](const LayerVariant& spec) { return std::get<DropoutSpec>(spec).p > 0; }};
}

/// A kind of two inputs or more, without keys of its own.
LayerKind several(std::string name, std::string help, std::string example, LayerVariant initial) {
  return {.name = std::move(name),
          .help = std::move(help),
          .example = std::move(example),
          .initial = std::move(initial),
          .fields = {},
          .takes_one = false,
          .min_inputs = 2,
          .max_inputs = any_number};
}

LayerKind residual() {
  return {"residual",
          "layers(x) + shortcut(x)",
          "residual: {layers: [linear: {out: 64}, relu, linear: {out: 64}]}",
          ResidualSpec{},
          {
              list(&ResidualSpec::layers, "layers", "The main branch").required(),
              list(&ResidualSpec::shortcut, "shortcut", "The other branch; x itself where not given")
                  .defaults_to("x itself"),
          }};
}

LayerKind sequential() {
  return {"sequential",
          "Layers one after the other, as one",
          "sequential: {layers: [linear: {out: 64}, relu], name: encoder}",
          SequentialSpec{},
          {list(&SequentialSpec::layers, "layers", "The layers").required()}};
}

LayerKind repeat() {
  return {"repeat",
          "Copies of the layers one after the other, each with parameters of its own",
          "repeat: {times: 4, layers: [linear: {out: 64}, relu]}",
          RepeatSpec{},
          {
              of(&RepeatSpec::times, "times", integer(1), "How many copies")
                  .required()
                  .is(SizeOf::depth)
                  .also_called({"n", "count"}),
              list(&RepeatSpec::layers, "layers", "What is copied").required(),
          }};
}

template <class... Specs>
bool is_one_of(const LayerVariant& spec) {
  return (std::holds_alternative<Specs>(spec) || ...);
}

bool has_parameters(const LayerVariant& spec) {
  return is_one_of<LinearSpec, EmbeddingSpec, PositionEmbeddingSpec, TokenTypeEmbeddingSpec, Conv2dSpec,
                   ConvTranspose2dSpec, BatchNormSpec, LayerNormSpec, RmsNormSpec, GroupNormSpec, PreluSpec,
                   PatchEmbeddingSpec, ClassTokenSpec, ResidualSpec, SequentialSpec, RepeatSpec>(spec);
}

std::vector<LayerKind> make_layer_kinds() {
  std::vector<LayerKind> kinds;
  kinds.push_back(linear());
  kinds.push_back(embedding());
  kinds.push_back(position_embedding());
  kinds.push_back(token_type_embedding());
  kinds.push_back(conv2d());
  kinds.push_back(conv_transpose2d());
  kinds.push_back(batchnorm(true));
  kinds.push_back(batchnorm(false));
  kinds.push_back(layernorm());
  kinds.push_back(rmsnorm());
  kinds.push_back(groupnorm());
  kinds.push_back(instancenorm2d());
  kinds.push_back(attention());
  kinds.push_back(activation(Activation::relu, "relu", "max(x, 0)"));
  kinds.push_back(activation(Activation::gelu, "gelu", "x Φ(x)"));
  kinds.push_back(activation(Activation::silu, "silu", "x sigmoid(x)"));
  kinds.push_back(activation(Activation::tanh, "tanh", "Hyperbolic tangent"));
  kinds.push_back(activation(Activation::sigmoid, "sigmoid", "1 / (1 + exp(−x))"));
  kinds.push_back(activation(Activation::leaky_relu, "leaky_relu", "x where it is above 0, else slope · x"));
  kinds.push_back(activation(Activation::relu6, "relu6", "min(max(x, 0), 6)"));
  kinds.push_back(activation(Activation::hardswish, "hardswish", "x relu6(x + 3) / 6"));
  kinds.push_back(activation(Activation::hardsigmoid, "hardsigmoid", "relu6(x + 3) / 6"));
  kinds.push_back(glu(Activation::silu, "swiglu", "silu"));
  kinds.push_back(glu(Activation::gelu, "geglu", "gelu"));
  kinds.push_back(prelu());
  kinds.push_back(maxpool2d());
  kinds.push_back(avgpool2d());
  kinds.push_back(adaptive_avgpool2d());
  kinds.push_back(upsample());
  kinds.push_back(pad());
  kinds.push_back({"global_avgpool",
                   "Mean over height and width, (H, W, C), or over tokens, (T, C): becomes (C)",
                   "global_avgpool",
                   GlobalAvgPoolSpec{},
                   {}});
  kinds.push_back(patch_embedding());
  kinds.push_back({"class_token",
                   "A learned token in front of the others, which starts as zeros",
                   "class_token",
                   ClassTokenSpec{},
                   {}});
  kinds.push_back(select_token());
  kinds.push_back(slice());
  kinds.push_back({"flatten", "Joins all dimensions of a sample into one", "flatten", FlattenSpec{}, {}});
  kinds.push_back(dropout());
  kinds.push_back(
      several("add", "Sum of the outputs of several layers, of one shape", "add: {from: [left, right]}", AddSpec{}));
  kinds.push_back(several(
      "multiply", "Product of the outputs of several layers, of one shape; (C) behind (H, W, C) gates each pixel",
      "multiply: {from: [features, gate]}", MultiplySpec{}));
  kinds.push_back(several("concat", "Channels of the outputs of several layers, one behind the other",
                          "concat: {from: [left, right]}", ConcatSpec{}));
  kinds.push_back(residual());
  kinds.push_back(sequential());
  kinds.push_back(repeat());
  for (LayerKind& kind : kinds) kind.has_parameters = has_parameters(kind.initial);
  return kinds;
}

}  // namespace

bool LayerKind::has_required_key() const {
  return !takes_one || std::any_of(fields.begin(), fields.end(), [](const auto& each) { return each.is_required; });
}

std::vector<std::string> LayerKind::keys() const {
  std::vector<std::string> result;
  for (const auto& each : fields) result.push_back(each.key);
  result.emplace_back("name");
  result.emplace_back("from");
  if (has_parameters) result.emplace_back("share");
  result.emplace_back("when");
  if (name == "repeat") result.emplace_back("as");
  return result;
}

std::string from_help(const LayerKind& kind) {
  if (!kind.takes_one) return "The layers whose outputs it takes, by name or path";
  return fmt::format("The layer whose output it takes, by name or path{}; the one before it where not given",
                     kind.takes_several() ? fmt::format(", or {} of them", kind.max_inputs) : "");
}

const std::vector<LayerKind>& layer_kinds() {
  static const std::vector<LayerKind> kinds = make_layer_kinds();
  return kinds;
}

const LayerKind* find_layer_kind(std::string_view name) {
  for (const LayerKind& kind : layer_kinds()) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
}

std::vector<std::string> layer_kind_names() {
  std::vector<std::string> names;
  for (const LayerKind& kind : layer_kinds()) names.push_back(kind.name);
  return names;
}

EnumRule<Initialization> initialization_choices() {
  using Type = Initialization;
  return choice<Type>({{"pytorch", Type::pytorch, "what torch.nn's module does by default"},
                       {"kaiming_uniform", Type::kaiming_uniform, "He et al. 2015 for ReLU, uniform"},
                       {"kaiming_normal", Type::kaiming_normal, "He et al. 2015 for ReLU, normal"},
                       {"xavier_uniform", Type::xavier_uniform, "Glorot and Bengio 2010, uniform"},
                       {"xavier_normal", Type::xavier_normal, "Glorot and Bengio 2010, normal"},
                       {"normal", Type::normal, "normal with standard deviation 0.02"},
                       {"zeros", Type::zeros, "all zero"}});
}

}  // namespace trainer
