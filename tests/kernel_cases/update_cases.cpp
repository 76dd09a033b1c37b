#include <fmt/format.h>

#include <array>

#include "cuda/kernels/average_weights.h"
#include "cuda/kernels/fill_zero.h"
#include "cuda/kernels/gradient_factor.h"
#include "cuda/kernels/optimizer_update.h"
#include "engine/ops/exact_sum.h"
#include "tests/kernel_cases/kernel_case.h"

namespace trainer::cuda {
namespace {

// Eight blocks of a transformer: 101 million parameters in 96 tensors at a width of 1024, the cases' unit.
constexpr std::int64_t width_of_model = 1024, width_of_tiny_model = 10;

std::vector<std::int64_t> parameter_counts(std::int64_t width) {
  std::vector<std::int64_t> counts;
  for (int block = 0; block < 8; ++block)
    for (const std::int64_t count : {3 * width * width, width * width, 4 * width * width, 4 * width * width, 3 * width,
                                     width, 4 * width, width, width, width, width, width})
      counts.push_back(count);
  return counts;
}

std::size_t hold(SizedCase& sized, DType type, const auto& values) {
  return sized.holding(OperandRole::input, type, std::as_bytes(std::span(values)));
}

void add_gradient_factor(KernelCases& cases, DType type) {
  cases.push_back({.name = case_name("gradient_factor", type, "101m"),
                   .kernels = {"sum_squares_kernel", "settle_factor_kernel"},
                   .units = width_of_model,
                   .least_units = width_of_tiny_model,
                   .sized = [=](std::int64_t width, Library&) {
                     const std::vector<std::int64_t> counts = parameter_counts(width);
                     SizedCase sized{.shape = fmt::format("width {}", width)};
                     std::int64_t num_chunks = 0;
                     for (const std::int64_t count : counts) {
                       sized.input(type, count);
                       num_chunks += gradient_factor_chunks(count);
                       sized.bytes += count * static_cast<std::int64_t>(size_of(type));
                     }
                     const auto factor = sized.output(DType::f32, num_gradient_factors);
                     const auto workspace = sized.scratch(8 * num_chunks);
                     sized.launch = [=](const OperandAddresses& at, Stream stream) {
                       std::vector<GradientView> views;
                       for (std::size_t i = 0; i < counts.size(); ++i) views.push_back({at[i], counts[i], type});
                       gradient_factor(views, {.clip_norm = 1}, nullptr, at.as<float>(factor), at[workspace], stream);
                     };
                     return sized;
                   }});
}

void add_gradient_squares(KernelCases& cases, bool is_exact) {
  cases.push_back({.name = case_name(is_exact ? "exact_gradient_squares" : "gradient_squares", DType::f32, "101m"),
                   .kernels = is_exact ? std::vector<std::string>{"block_squares_kernel", "add_exactly_kernel"}
                                       : std::vector<std::string>{"sum_squares_kernel", "add_squares_kernel"},
                   .units = width_of_model,
                   .least_units = width_of_tiny_model,
                   .sized = [=](std::int64_t width, Library&) {
                     const std::vector<std::int64_t> counts = parameter_counts(width);
                     SizedCase sized{.shape = fmt::format("width {}", width)};
                     std::int64_t num_chunks = 0;
                     for (const std::int64_t count : counts) {
                       sized.input(DType::f32, count);
                       num_chunks += gradient_factor_chunks(count);
                       sized.bytes += count * static_cast<std::int64_t>(sizeof(float));
                     }
                     const auto squares =
                         is_exact ? sized.output(DType::i64, num_exact_sum) : sized.output(DType::f64, 1);
                     const auto workspace =
                         sized.scratch(is_exact ? exact_squares_workspace_bytes(num_chunks) : 8 * num_chunks);
                     sized.launch = [=](const OperandAddresses& at, Stream stream) {
                       std::vector<GradientView> views;
                       for (std::size_t i = 0; i < counts.size(); ++i) views.push_back({at[i], counts[i], DType::f32});
                       if (is_exact)
                         exact_gradient_squares(views, at.as<std::int64_t>(squares), at[workspace], stream);
                       else
                         gradient_squares(views, at.as<double>(squares), at[workspace], stream);
                     };
                     return sized;
                   }});
}

void add_factor_of_exact_squares(KernelCases& cases) {
  cases.push_back({.name = "gradient_factor_of_exact_squares",
                   .kernels = {"settle_exact_factor_kernel"},
                   .grows = false,
                   .sized = [](std::int64_t, Library&) {
                     SizedCase sized{.shape = "one sum", .bytes = num_exact_sum * std::int64_t{8}};
                     std::array<std::int64_t, num_exact_sum> digits{};
                     for (const double each : {12.5, 1e-9, 3e7}) add_exactly(each, digits.data());
                     const auto squares = hold(sized, DType::i64, digits);
                     const auto factor = sized.output(DType::f32, num_gradient_factors);
                     sized.launch = [=](const OperandAddresses& at, Stream stream) {
                       gradient_factor_of_exact_squares(at.as<const std::int64_t>(squares), {.clip_norm = 1}, nullptr,
                                                        at.as<float>(factor), stream);
                     };
                     return sized;
                   }});
}

void add_averages(KernelCases& cases) {
  cases.push_back({.name = "average_weights.f32.101m",
                   .kernels = {"average_weights_kernel"},
                   .units = width_of_model,
                   .least_units = width_of_tiny_model,
                   .sized = [](std::int64_t width, Library&) {
                     SizedCase sized{.shape = fmt::format("width {}", width)};
                     const std::vector<std::int64_t> counts = parameter_counts(width);
                     for (const std::int64_t count : counts) {
                       sized.input(DType::f32, count);
                       sized.modified(DType::f32, count);
                       sized.bytes += 12 * count;
                     }
                     const std::array<StepScalars, 1> step = {StepScalars{.average_share = 0.001}};
                     const auto scalars = hold(sized, DType::u8, step);
                     sized.launch = [=](const OperandAddresses& at, Stream stream) {
                       std::vector<AveragedTensor> tensors;
                       for (std::size_t i = 0; i < counts.size(); ++i)
                         tensors.push_back({at.as<const float>(2 * i), at.as<float>(2 * i + 1), counts[i]});
                       average_weights(tensors, at.as<const StepScalars>(scalars), stream);
                     };
                     return sized;
                   }});
}

void add_zeros(KernelCases& cases) {
  cases.push_back({.name = "fill_zero.f32.101m",
                   .kernels = {"fill_zero_kernel"},
                   .units = width_of_model,
                   .least_units = width_of_tiny_model,
                   .sized = [](std::int64_t width, Library&) {
                     SizedCase sized{.shape = fmt::format("width {}", width)};
                     const std::vector<std::int64_t> counts = parameter_counts(width);
                     for (const std::int64_t count : counts) {
                       sized.output(DType::f32, count);
                       sized.bytes += 4 * count;
                     }
                     sized.launch = [=](const OperandAddresses& at, Stream stream) {
                       std::vector<ZeroedTensor> tensors;
                       for (std::size_t i = 0; i < counts.size(); ++i) tensors.push_back({at[i], counts[i]});
                       fill_zero(DType::f32, tensors, stream);
                     };
                     return sized;
                   }});
}

enum class UpdateRule : std::uint8_t { sgd, momentum, adamw };

struct UpdateVariant {
  const char* name;
  UpdateRule rule;
  UpdateTypes types = {};
};
const UpdateVariant update_variants[] = {
    {"sgd", UpdateRule::sgd},
    {"momentum", UpdateRule::momentum},
    {"adamw", UpdateRule::adamw},
    {"momentum.bf16_gradients", UpdateRule::momentum, {.gradients = DType::bf16, .copies = DType::bf16}},
    {"adamw.bf16_gradients", UpdateRule::adamw, {.gradients = DType::bf16, .copies = DType::bf16}},
    {"adamw.f32_gradients_f16_copies", UpdateRule::adamw, {.copies = DType::f16}},
    {"adamw.bf16_weights", UpdateRule::adamw, {.rounds_weights = true, .gradients = DType::bf16}},
    {"adamw.bf16_weights_8bit_moments",
     UpdateRule::adamw,
     {.rounds_weights = true, .gradients = DType::bf16, .eight_bit = true}},
    {"adamw.8bit_moments", UpdateRule::adamw, {.eight_bit = true}},
};

/// The places of one tensor's operands.
struct UpdateSlots {
  std::int64_t count = 0;
  std::size_t weight = 0, gradient = 0, copy = 0, states[2] = {0, 0};
};

UpdateSlots add_tensor(SizedCase& sized, const UpdateVariant& variant, std::int64_t count) {
  const UpdateTypes& types = variant.types;
  UpdateSlots slots{.count = count};
  slots.weight = sized.modified(types.rounds_weights ? DType::bf16 : DType::f32, count);
  slots.gradient = sized.input(types.gradients, count);
  if (types.copies != DType::f32) slots.copy = sized.output(types.copies, count);
  const int num_states = variant.rule == UpdateRule::sgd ? 0 : variant.rule == UpdateRule::momentum ? 1 : 2;
  for (int state = 0; state < num_states; ++state) {
    if (types.eight_bit) {
      // Codes, and floats that are small and positive where all of their bytes are these.
      const std::int64_t num_bytes = moment_code_bytes(count) + 4 * num_moment_blocks(count);
      slots.states[state] = sized.modified(DType::u8, num_bytes, 0x3A, 0x3E);
    } else {
      slots.states[state] = sized.modified(DType::f32, count, state == 0 ? -1 : 0.1, 1);
    }
  }
  return slots;
}

/// What is read and written once each, and what one of them is done to.
std::int64_t moved_bytes(const SizedCase& sized) {
  std::int64_t bytes = 0;
  for (const CaseOperand& operand : sized.operands)
    bytes += operand.num_bytes() * (operand.role == OperandRole::modified ? 2 : 1);
  return bytes;
}

SizedCase update_of(const UpdateVariant& variant, std::int64_t width) {
  SizedCase sized{.shape = fmt::format("width {}", width)};
  std::vector<UpdateSlots> tensors;
  for (const std::int64_t count : parameter_counts(width)) tensors.push_back(add_tensor(sized, variant, count));
  sized.bytes = moved_bytes(sized);
  constexpr std::array<double, num_loss_statistics> statistic_values = {12.5, 8, 3, 5, 8};
  constexpr std::array<float, num_gradient_factors> factor_values = {4, 0.25F, 1};
  const std::array<StepScalars, 1> step = {StepScalars{.seed = 7, .learning_rate = 0.1, .update = 5}};
  const auto statistics = hold(sized, DType::f64, statistic_values), factor = hold(sized, DType::f32, factor_values);
  const auto scalars = hold(sized, DType::u8, step);
  sized.launch = [=](const OperandAddresses& at, Stream stream) {
    std::vector<UpdateTensor> operands;
    const auto state_of = [&](std::size_t slot) { return slot == 0 ? nullptr : at[slot]; };
    for (const UpdateSlots& slots : tensors)
      operands.push_back({.weight = at[slots.weight],
                          .gradient = at[slots.gradient],
                          .copy = state_of(slots.copy),
                          .states = {state_of(slots.states[0]), state_of(slots.states[1])},
                          .count = slots.count,
                          .random_stream = static_cast<std::uint32_t>(operands.size())});
    const UpdateOperands shared{.statistics = at.as<double>(statistics),
                                .factor = at.as<const float>(factor),
                                .scalars = at.as<const StepScalars>(scalars)};
    if (variant.rule == UpdateRule::adamw) {
      adam_update(variant.types, shared, operands, {.weight_decay = 0.01, .decoupled = true}, stream);
    } else {
      const double momentum = variant.rule == UpdateRule::momentum ? 0.9 : 0;
      sgd_update(variant.types, shared, operands, {.momentum = momentum, .weight_decay = 5e-4}, stream);
    }
  };
  return sized;
}

}  // namespace

void add_update_cases(KernelCases& cases) {
  for (const DType type : case_types) add_gradient_factor(cases, type);
  for (const bool is_exact : {false, true}) add_gradient_squares(cases, is_exact);
  add_factor_of_exact_squares(cases);
  add_averages(cases);
  add_zeros(cases);
  for (const UpdateVariant& variant : update_variants)
    cases.push_back({.name = fmt::format("update.{}.101m", variant.name),
                     .kernels = {variant.types.are_all_f32() ? "update_kernel" : "update_of_types_kernel"},
                     .units = width_of_model,
                     .least_units = width_of_tiny_model,
                     .sized = [variant](std::int64_t width, Library&) { return update_of(variant, width); }});
}

}  // namespace trainer::cuda
