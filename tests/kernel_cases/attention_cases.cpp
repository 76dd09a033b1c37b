#include <fmt/format.h>

#include <cmath>

#include "cuda/kernels/cached_attention.h"
#include "tests/kernel_cases/kernel_case.h"

namespace trainer::cuda {
namespace {

struct AttentionVariant {
  const char* name;
  std::int64_t positions;
  int heads, kv_heads, width;
  bool causal, rotates, drops;
  std::int64_t samples;
};
constexpr AttentionVariant attention_variants[] = {
    {"1024x12x64", 1024, 12, 12, 64, true, false, false, 8},
    {"1024x12x64.dropout", 1024, 12, 12, 64, true, false, true, 8},
    {"2048x16of4x128.rotary", 2048, 16, 4, 128, true, true, false, 4},
    {"512x4x256", 512, 4, 4, 256, false, false, false, 8},
};

/// Of packed operands; at the least size of 40 positions and few heads.
AttentionSizes sizes_of(const AttentionVariant& variant, std::int64_t samples) {
  const bool is_least = samples <= 2;
  AttentionSizes sizes;
  sizes.samples = samples;
  sizes.queries = sizes.keys = is_least ? 40 : variant.positions;
  sizes.heads = is_least ? variant.heads / variant.kv_heads : variant.heads;
  sizes.kv_heads = is_least ? 1 : variant.kv_heads;
  sizes.width = variant.width;
  sizes.query_features = sizes.key_features = std::int64_t{sizes.heads + 2 * sizes.kv_heads} * variant.width;
  sizes.causal = variant.causal;
  sizes.rotates = variant.rotates;
  sizes.drops = variant.drops;
  sizes.scale = 1 / std::sqrt(static_cast<float>(variant.width));
  for (int i = 0; i < variant.width / 2; ++i)
    sizes.rotary_frequencies[i] = std::pow(10000.0F, -2.0F * static_cast<float>(i) / static_cast<float>(variant.width));
  sizes.threshold = 1U << 21;
  sizes.kept_scale = 8.0F / 7.0F;
  return sizes;
}

std::int64_t features_of(const AttentionSizes& sizes) { return std::int64_t{sizes.heads} * sizes.width; }
std::string text_of(const AttentionSizes& sizes) {
  return fmt::format("{}x{}x{}x{}", sizes.samples, sizes.queries, sizes.heads, sizes.width);
}

std::size_t add_scalars(SizedCase& sized) {
  static constexpr StepScalars scalars{.seed = 3, .pass = 4};
  return sized.holding(OperandRole::input, DType::u8, std::as_bytes(std::span(&scalars, 1)));
}

AttentionOperands operands_at(const OperandAddresses& at, std::size_t packed, DType type, const AttentionSizes& sizes,
                              std::size_t scalars, void* workspace) {
  const auto bytes = static_cast<std::int64_t>(size_of(type));
  const auto* const q = at.as<const std::byte>(packed);
  const auto* const k = q + features_of(sizes) * bytes;
  return {.q = q,
          .k = k,
          .v = k + std::int64_t{sizes.kv_heads} * sizes.width * bytes,
          .scalars = at.as<const StepScalars>(scalars),
          .workspace = workspace};
}

SizedCase attention_forward_of(DType type, const AttentionSizes& sizes) {
  const std::int64_t rows = sizes.samples * sizes.queries, logarithms = rows * sizes.heads;
  const auto bytes = static_cast<std::int64_t>(size_of(type));
  SizedCase sized{.shape = text_of(sizes),
                  .bytes = rows * (sizes.query_features + features_of(sizes)) * bytes + logarithms * 4};
  const auto packed = sized.input(type, rows * sizes.query_features);
  const auto scalars = add_scalars(sized);
  const auto y = sized.output(type, rows * features_of(sizes)), lse = sized.output(DType::f32, logarithms);
  const auto workspace = sized.scratch(attention_rotation_bytes(sizes));
  sized.launch = [=](const OperandAddresses& at, Stream stream) {
    attention_forward(type, operands_at(at, packed, type, sizes, scalars, at[workspace]), at[y], at.as<float>(lse),
                      sizes, stream);
  };
  return sized;
}

SizedCase attention_backward_of(DType type, const AttentionSizes& sizes) {
  const std::int64_t rows = sizes.samples * sizes.queries, logarithms = rows * sizes.heads;
  const auto bytes = static_cast<std::int64_t>(size_of(type));
  SizedCase sized{.shape = text_of(sizes),
                  .bytes = 2 * rows * (sizes.query_features + features_of(sizes)) * bytes + logarithms * 4};
  const auto packed = sized.input(type, rows * sizes.query_features);
  const auto scalars = add_scalars(sized);
  const auto dy = sized.input(type, rows * features_of(sizes)), y = sized.input(type, rows * features_of(sizes));
  const auto lse = sized.input(DType::f32, logarithms, 6, 8);
  const auto gradients = sized.output(type, rows * sizes.query_features);
  const auto workspace = sized.scratch(attention_backward_workspace_bytes(sizes));
  sized.launch = [=](const OperandAddresses& at, Stream stream) {
    auto* const dq = at.as<std::byte>(gradients);
    auto* const dk = dq + features_of(sizes) * bytes;
    attention_backward(type, operands_at(at, packed, type, sizes, scalars, at[workspace]),
                       {.dy = at[dy],
                        .y = at[y],
                        .lse = at.as<const float>(lse),
                        .dq = dq,
                        .dk = dk,
                        .dv = dk + std::int64_t{sizes.kv_heads} * sizes.width * bytes},
                       sizes, stream);
  };
  return sized;
}

/// A new token of each text, behind as many as there are positions.
SizedCase cached_attention_of(DType type, const AttentionSizes& of_all) {
  AttentionSizes sizes = of_all;
  sizes.queries = 1;
  const std::int64_t cache = sizes.samples * sizes.keys * sizes.kv_heads * sizes.width;
  const auto bytes = static_cast<std::int64_t>(size_of(type));
  SizedCase sized{.shape = fmt::format("{} of {}", sizes.samples, text_of(of_all)),
                  .bytes = (sizes.samples * (sizes.query_features + features_of(sizes)) + 2 * cache) * bytes};
  const auto packed = sized.input(type, sizes.samples * sizes.query_features);
  const std::vector<std::int32_t> last(static_cast<std::size_t>(sizes.samples),
                                       static_cast<std::int32_t>(sizes.keys - 1));
  const auto positions = sized.holding(OperandRole::input, DType::i32, std::as_bytes(std::span(last)));
  const auto keys = sized.modified(type, cache), values = sized.modified(type, cache);
  const auto y = sized.output(type, sizes.samples * features_of(sizes));
  sized.launch = [=](const OperandAddresses& at, Stream stream) {
    const AttentionOperands operands = operands_at(at, packed, type, sizes, positions, nullptr);
    cached_attention(type,
                     {.q = operands.q,
                      .k = operands.k,
                      .v = operands.v,
                      .positions = at.as<const std::int32_t>(positions),
                      .keys = at[keys],
                      .values = at[values]},
                     at[y], sizes, stream);
  };
  return sized;
}

/// With tensor cores or not: Note [Attention in fragments] in cuda/kernels/attention_mma.h.
std::vector<std::string> attention_kernels(DType type, const AttentionVariant& variant, bool backward) {
  const std::string by = type != DType::f32 && variant.width <= 128 ? "_mma_kernel" : "_kernel";
  std::vector<std::string> kernels = {"attention_forward" + by};
  if (backward) kernels = {"attention_dots_kernel", "attention_query_gradient" + by, "attention_key_gradient" + by};
  if (variant.rotates) kernels.emplace_back("attention_rotations_kernel");
  return kernels;
}

}  // namespace

void add_attention_cases(KernelCases& cases) {
  for (const DType type : case_types) {
    for (const AttentionVariant& variant : attention_variants) {
      cases.push_back({.name = case_name("attention_forward", type, variant.name),
                       .kernels = attention_kernels(type, variant, false),
                       .units = variant.samples,
                       .least_units = 1,
                       .moves_memory = false,
                       .sized = [=](std::int64_t samples, Library&) {
                         return attention_forward_of(type, sizes_of(variant, samples));
                       }});
      cases.push_back({.name = case_name("attention_backward", type, variant.name),
                       .kernels = attention_kernels(type, variant, true),
                       .units = variant.samples,
                       .least_units = 1,
                       .moves_memory = false,
                       .sized = [=](std::int64_t samples, Library&) {
                         return attention_backward_of(type, sizes_of(variant, samples));
                       }});
      if (!variant.causal || variant.drops) continue;
      cases.push_back({.name = case_name("cached_attention", type, variant.name),
                       .kernels = {"keep_tokens_kernel", "cached_attention_kernel"},
                       .units = variant.samples,
                       .least_units = 1,
                       .sized = [=](std::int64_t samples, Library&) {
                         return cached_attention_of(type, sizes_of(variant, samples));
                       }});
    }
  }
}

}  // namespace trainer::cuda
