#include <fmt/format.h>

#include "cuda/kernels/activation.h"
#include "cuda/kernels/add.h"
#include "cuda/kernels/cast.h"
#include "cuda/kernels/dropout.h"
#include "cuda/kernels/glu.h"
#include "cuda/kernels/loss_scale.h"
#include "cuda/kernels/multiply.h"
#include "engine/device/step_scalars.h"
#include "tests/kernel_cases/kernel_case.h"

namespace trainer::cuda {
namespace {

// Of an activation of ResNet-18 at a batch of 256.
constexpr std::int64_t elements = std::int64_t{256} * 32 * 32 * 64;
constexpr std::int64_t few_elements = 5003;

/// Adds a case over `units` elements; `fill` gives it operands and the launch.
template <typename Fill>
void add_elements(KernelCases& cases, std::string name, std::string kernel, const Fill& fill) {
  cases.push_back({.name = std::move(name),
                   .kernels = {std::move(kernel)},
                   .units = elements,
                   .least_units = few_elements,
                   .sized = [fill](std::int64_t count, Library&) {
                     SizedCase sized{.shape = fmt::format("{}", count)};
                     fill(sized, count);
                     for (const CaseOperand& operand : sized.operands)
                       if (operand.content.empty()) sized.bytes += operand.num_bytes();
                     return sized;
                   }});
}

struct NamedActivation {
  const char* name;
  ActivationAttributes attributes;
};
const NamedActivation activations[] = {
    {"relu", {Activation::relu}},
    {"gelu", {Activation::gelu}},
    {"gelu_tanh", {Activation::gelu, GeluApproximation::tanh}},
    {"silu", {Activation::silu}},
    {"tanh", {Activation::tanh}},
    {"sigmoid", {Activation::sigmoid}},
    {"leaky_relu", {Activation::leaky_relu, GeluApproximation::none, 0.01}},
    {"relu6", {Activation::relu6}},
    {"hardswish", {Activation::hardswish}},
    {"hardsigmoid", {Activation::hardsigmoid}},
};

void add_activations(KernelCases& cases, DType type) {
  for (const NamedActivation& named : activations) {
    const char* const function = named.name;
    const ActivationAttributes attributes = named.attributes;
    add_elements(cases, case_name("activation_forward", type, function), "elementwise_kernel",
                 [type, attributes](SizedCase& sized, std::int64_t count) {
                   const auto x = sized.input(type, count), y = sized.output(type, count);
                   sized.launch = [=](const OperandAddresses& at, Stream stream) {
                     activation_forward(type, attributes, at[x], at[y], count, stream);
                   };
                 });
    add_elements(cases, case_name("activation_backward", type, function), "elementwise_kernel",
                 [type, attributes](SizedCase& sized, std::int64_t count) {
                   const auto dy = sized.input(type, count), y = sized.input(type, count);
                   const auto dx = sized.output(type, count);
                   sized.launch = [=](const OperandAddresses& at, Stream stream) {
                     activation_backward(type, attributes, at[dy], at[y], at[dx], count, stream);
                   };
                 });
  }
}

void add_sums(KernelCases& cases, DType type) {
  for (const bool relu : {false, true})
    add_elements(cases, case_name("add", type, relu ? "relu" : "plain"), "elementwise_kernel",
                 [type, relu](SizedCase& sized, std::int64_t count) {
                   const auto a = sized.input(type, count), b = sized.input(type, count);
                   const auto y = sized.output(type, count);
                   sized.launch = [=](const OperandAddresses& at, Stream stream) {
                     add(type, relu, at[a], at[b], at[y], count, stream);
                   };
                 });
}

void add_sums_of_doubles(KernelCases& cases) {
  add_elements(cases, "add_doubles", "add_doubles_kernel", [](SizedCase& sized, std::int64_t count) {
    const auto a = sized.input(DType::f64, count), b = sized.input(DType::f64, count);
    const auto y = sized.output(DType::f64, count);
    sized.launch = [=](const OperandAddresses& at, Stream stream) {
      add_doubles(at.as<const double>(a), at.as<const double>(b), at.as<double>(y), count, stream);
    };
  });
}

void add_products(KernelCases& cases, DType type) {
  add_elements(cases, case_name("multiply", type, ""), "elementwise_kernel",
               [type](SizedCase& sized, std::int64_t count) {
                 const auto a = sized.input(type, count), b = sized.input(type, count);
                 const auto y = sized.output(type, count);
                 sized.launch = [=](const OperandAddresses& at, Stream stream) {
                   multiply(type, at[a], at[b], at[y], count, stream);
                 };
               });
}

/// Over rows of a feed-forward layer's width; halves of one operand, as a product of both gives them.
void add_glus(KernelCases& cases, DType type) {
  constexpr std::int64_t columns = 2048, least_columns = 72;
  const GluAttributes attributes{Activation::silu};
  const auto add_case = [&](std::string name, std::string kernel, auto&& fill) {
    cases.push_back({.name = case_name(std::move(name), type, "silu"),
                     .kernels = {std::move(kernel)},
                     .units = elements / columns / 2,
                     .least_units = 13,
                     .sized = [=](std::int64_t rows, Library&) {
                       const std::int64_t width = rows < 64 ? least_columns : columns;
                       SizedCase sized{.shape = fmt::format("{}x{}", rows, 2 * width)};
                       fill(sized,
                            GluLayout{.packed = true, .rows = rows, .columns = width, .row_elements = 2 * width});
                       for (const CaseOperand& operand : sized.operands) sized.bytes += operand.num_bytes();
                       return sized;
                     }});
  };
  const auto half_behind = [type](void* packed, const GluLayout& layout) -> void* {
    return static_cast<std::byte*>(packed) + layout.columns * static_cast<std::int64_t>(size_of(type));
  };
  add_case("glu_forward", "glu_forward_kernel", [=](SizedCase& sized, const GluLayout& layout) {
    const auto x = sized.input(type, layout.rows * layout.row_elements);
    const auto y = sized.output(type, layout.rows * layout.columns);
    sized.launch = [=](const OperandAddresses& at, Stream stream) {
      glu_forward(type, attributes, layout, at[x], half_behind(at[x], layout), at[y], stream);
    };
  });
  add_case("glu_backward", "glu_backward_kernel", [=](SizedCase& sized, const GluLayout& layout) {
    const auto dy = sized.input(type, layout.rows * layout.columns);
    const auto x = sized.input(type, layout.rows * layout.row_elements);
    const auto dx = sized.output(type, layout.rows * layout.row_elements);
    sized.launch = [=](const OperandAddresses& at, Stream stream) {
      glu_backward(type, attributes, layout, at[dy], at[x], half_behind(at[x], layout), at[dx],
                   half_behind(at[dx], layout), stream);
    };
  });
}

void add_dropout(KernelCases& cases, DType type) {
  add_elements(cases, case_name("dropout", type, ""), "dropout_kernel", [type](SizedCase& sized, std::int64_t count) {
    const StepScalars step{.seed = 7, .pass = 3};
    const auto scalars =
        sized.holding(OperandRole::input, DType::u8, std::as_bytes(std::span<const StepScalars>(&step, 1)));
    const auto x = sized.input(type, count), y = sized.output(type, count);
    sized.launch = [=](const OperandAddresses& at, Stream stream) {
      constexpr std::uint32_t tenth = (1u << 24) / 10;
      dropout(type, 5, tenth, 1.0F / 0.9F, at.as<const StepScalars>(scalars), at[x], at[y], count, count, stream);
    };
  });
}

/// Half of the columns of rows, from within a block of words on.
void add_dropout_of_part(KernelCases& cases, DType type) {
  add_elements(cases, case_name("dropout_of_part", type, ""), "dropout_of_part_kernel",
               [type](SizedCase& sized, std::int64_t count) {
                 const StepScalars step{.seed = 7, .pass = 3};
                 const auto scalars = sized.holding(OperandRole::input, DType::u8,
                                                    std::as_bytes(std::span<const StepScalars>(&step, 1)));
                 const std::int64_t own = count % 4096 == 0 ? 4096 : count;
                 const auto x = sized.input(type, count), y = sized.output(type, count);
                 sized.launch = [=](const OperandAddresses& at, Stream stream) {
                   constexpr std::uint32_t tenth = (1u << 24) / 10;
                   dropout_of_part(type, 5, tenth, 1.0F / 0.9F, at.as<const StepScalars>(scalars), at[x], at[y],
                                   {.own_columns = own,
                                    .all_columns = 2 * own + 1,
                                    .first_column = own + 1,
                                    .sample_rows = count / own,
                                    .first_row = 0},
                                   count / own, stream);
                 };
               });
}

void add_casts(KernelCases& cases) {
  for (const DType half : {DType::f16, DType::bf16})
    for (const bool narrows : {true, false}) {
      const DType from = narrows ? DType::f32 : half, to = narrows ? half : DType::f32;
      add_elements(cases, case_name("cast", from, fmt::format("to_{}", name_of(to))), "cast_kernel",
                   [from, to](SizedCase& sized, std::int64_t count) {
                     const auto x = sized.input(from, count), y = sized.output(to, count);
                     sized.launch = [=](const OperandAddresses& at, Stream stream) {
                       cast(from, at[x], to, at[y], count, stream);
                     };
                   });
    }
}

void add_scaled_gradients(KernelCases& cases) {
  add_elements(cases, case_name("scale_gradient", DType::f32, ""), "elementwise_kernel",
               [](SizedCase& sized, std::int64_t count) {
                 const LossScaleState values = {1024, 3, 0};
                 const auto state =
                     sized.holding(OperandRole::input, DType::f64, std::as_bytes(std::span<const double>(values)));
                 const auto x = sized.input(DType::f32, count), y = sized.output(DType::f32, count);
                 sized.launch = [=](const OperandAddresses& at, Stream stream) {
                   scale_gradient(at.as<const float>(x), at.as<const double>(state), at.as<float>(y), count, stream);
                 };
               });
}

}  // namespace

void add_elementwise_cases(KernelCases& cases) {
  for (const DType type : case_types) {
    add_activations(cases, type);
    add_sums(cases, type);
    add_products(cases, type);
    add_glus(cases, type);
    add_dropout(cases, type);
    add_dropout_of_part(cases, type);
  }
  add_sums_of_doubles(cases);
  add_casts(cases);
  add_scaled_gradients(cases);
}

}  // namespace trainer::cuda
