#include <fmt/format.h>

#include <memory>
#include <optional>

#include "cuda/kernels/matmul_epilogue.h"
#include "cuda/ops/unfused_matmul.h"
#include "engine/ops/linear.h"
#include "tests/kernel_cases/kernel_case.h"

namespace trainer::cuda {
namespace {

struct NamedEpilogue {
  const char* name;
  Epilogue epilogue;
};
constexpr NamedEpilogue epilogues[] = {
    {"bias", Epilogue::bias},
    {"relu_bias", Epilogue::relu_bias},
    {"relu_bias_aux", Epilogue::relu_bias_aux},
    {"gelu_bias_aux", Epilogue::gelu_bias_aux},
    {"drelu", Epilogue::drelu},
    {"dgelu", Epilogue::dgelu},
};

/// Places of what a product reads and writes; those that it has not stay empty.
struct MatmulSlots {
  std::optional<std::size_t> a, b, c, bias, aux, workspace;

  MatmulOperands at(const OperandAddresses& addresses) const {
    const auto of = [&](const std::optional<std::size_t>& slot) { return slot ? addresses[*slot] : nullptr; };
    return {.a = of(a), .b = of(b), .c = of(c), .bias = of(bias), .aux = of(aux), .workspace = of(workspace)};
  }
};

/// Bias and aux of `call`, read or written.
void add_epilogue_operands(SizedCase& sized, const MatmulCall& call, MatmulSlots& slots) {
  if (reads_bias(call.epilogue)) slots.bias = sized.input(result_type(call), call.n);
  if (call.epilogue == Epilogue::bias_gradient_a) slots.bias = sized.output(result_type(call), call.m);
  const bool reads_aux = call.epilogue == Epilogue::drelu || call.epilogue == Epilogue::dgelu;
  if (has_gelu_aux(call.epilogue)) {
    const std::int64_t count = call.m * call.n;
    slots.aux = reads_aux ? sized.input(call.type, count) : sized.output(call.type, count);
  } else if (has_relu_mask(call.epilogue)) {
    const std::int64_t num_bytes = call.m * relu_mask_row_bytes(call.n);
    slots.aux = reads_aux ? sized.input(DType::u8, num_bytes, 0, 256) : sized.output(DType::u8, num_bytes);
  }
}

std::int64_t bytes_of(const SizedCase& sized, const std::optional<std::size_t>& slot) {
  return slot ? sized.operands[*slot].num_bytes() : 0;
}

std::string text_of(const MatmulCall& call) { return fmt::format("{}x{}x{}", call.m, call.n, call.k); }

/// The epilogue's own kernel over a product that is there already.
void add_epilogue(KernelCases& cases, DType type, const NamedEpilogue& named) {
  cases.push_back({.name = case_name("matmul_epilogue", type, named.name),
                   .kernels = {"matmul_epilogue_kernel"},
                   .units = 8192,
                   .least_units = 3,
                   .sized = [=](std::int64_t rows, Library&) {
                     const MatmulCall call{.m = rows, .n = 4096, .k = 1024, .type = type, .epilogue = named.epilogue};
                     SizedCase sized{.shape = fmt::format("{}x{}", call.m, call.n)};
                     MatmulSlots slots;
                     slots.c = sized.modified(type, call.m * call.n);
                     add_epilogue_operands(sized, call, slots);
                     sized.bytes = 2 * bytes_of(sized, slots.c) + bytes_of(sized, slots.aux);
                     sized.launch = [=](const OperandAddresses& at, Stream stream) {
                       matmul_epilogue(call, slots.at(at), stream);
                     };
                     return sized;
                   }});
}

SizedCase product_of(const MatmulCall& call, bool split, Library& library) {
  SizedCase sized{.shape = text_of(call)};
  MatmulSlots slots;
  slots.a = sized.input(call.type, call.m * call.k);
  slots.b = sized.input(call.type, call.k * call.n);
  slots.c = sized.output(result_type(call), call.m * call.n);
  sized.bytes = bytes_of(sized, slots.a) + bytes_of(sized, slots.b) + bytes_of(sized, slots.c);
  add_epilogue_operands(sized, call, slots);
  if (const std::int64_t num_bytes = matmul_workspace_bytes(call); num_bytes > 0)
    slots.workspace = sized.scratch(num_bytes);
  const std::shared_ptr<Matmul> product =
      split ? make_unfused_matmul(call, library.prepare(without_epilogue(call))) : library.prepare(call);
  sized.launch = [=](const OperandAddresses& at, Stream stream) { product->run(slots.at(at), stream); };
  return sized;
}

/// `call` as the library computes it, and beside it the plain product with the epilogue's own kernel behind it.
/// `of_units` makes a call of that many rows.
template <typename OfUnits>
void add_products(KernelCases& cases, const std::string& variant, std::vector<std::string> split_kernels,
                  std::int64_t units, std::int64_t least_units, bool grows, const OfUnits& of_units) {
  const DType type = of_units(units).type;
  for (const bool split : {false, true})
    cases.push_back(
        {.name = case_name(split ? "matmul_split" : "matmul_fused", type, variant),
         .kernels = split ? split_kernels : std::vector<std::string>{},
         .units = units,
         .least_units = least_units,
         .grows = grows,
         .sized = [=](std::int64_t count, Library& library) { return product_of(of_units(count), split, library); }});
}

void add_layer_products(KernelCases& cases, DType type) {
  for (const NamedEpilogue& named : epilogues) {
    // A layer of a wide MLP, all of whose sizes follow the rows, and the small MLP's first.
    add_products(
        cases, fmt::format("{}.4096x1024", named.name), {"matmul_epilogue_kernel"}, 8192, 256, true,
        [=](std::int64_t rows) {
          return MatmulCall{
              .m = rows, .n = rows / 2, .k = rows / 8, .transpose_b = true, .type = type, .epilogue = named.epilogue};
        });
    add_products(cases, fmt::format("{}.256x784", named.name), {"matmul_epilogue_kernel"}, 128, 3, false,
                 [=](std::int64_t rows) {
                   return MatmulCall{
                       .m = rows, .n = 256, .k = 784, .transpose_b = true, .type = type, .epilogue = named.epilogue};
                 });
  }
  // dW and db of both; rows are what is summed over.
  const std::vector<std::string> bias_kernels = {"bias_gradient_kernel", "combine_bias_gradient_kernel"};
  add_products(cases, "bias_gradient.4096x1024", bias_kernels, 8192, 240, true, [=](std::int64_t rows) {
    return MatmulCall{.m = rows / 2,
                      .n = rows / 8,
                      .k = rows,
                      .transpose_a = true,
                      .type = type,
                      .epilogue = Epilogue::bias_gradient_a,
                      .f32_result = type != DType::f32};
  });
  add_products(cases, "bias_gradient.256x784", bias_kernels, 128, 128, false, [=](std::int64_t rows) {
    return MatmulCall{.m = 256,
                      .n = 784,
                      .k = rows,
                      .transpose_a = true,
                      .type = type,
                      .epilogue = Epilogue::bias_gradient_a,
                      .f32_result = type != DType::f32};
  });
}

}  // namespace

void add_matmul_cases(KernelCases& cases) {
  for (const DType type : case_types) {
    for (const NamedEpilogue& named : epilogues) add_epilogue(cases, type, named);
    add_layer_products(cases, type);
  }
}

}  // namespace trainer::cuda
