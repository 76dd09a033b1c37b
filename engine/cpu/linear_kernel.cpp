#include <algorithm>

#include "engine/cpu/dnnl_call.h"
#include "engine/cpu/dnnl_exceptions.h"
#include "engine/cpu/gelu.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/parallel.h"
#include "engine/cpu/relu.h"
#include "engine/simd.h"

namespace trainer {

namespace {

using Tag = dnnl::memory::format_tag;
using Memory = dnnl::memory::desc;

/// Note [Linear by matmul]. oneDNN's matmul takes the weights in PyTorch's (out, in) order and needs no reorder. On
/// Zen 4 with AVX-512 it reaches 215 to 230 of about 235 GFLOP/s in all three directions, while inner_product with
/// plain weights reaches 130 to 190 forward, and with weights in its own order no more than matmul, before the reorder.
struct MatrixProduct {
  Memory a, b, c;     ///< c (M, N) = a (M, K) · b (K, N)
  Memory bias;        ///< (1, N); empty where there is none
  bool adds = false;  ///< to what c holds
};

Memory matrix(std::int64_t rows, std::int64_t columns, Tag tag) {
  return {{rows, columns}, dnnl::memory::data_type::f32, tag};
}

struct LinearShape {
  std::int64_t rows = 0, in = 0, out = 0;
};

LinearShape shape_of(const TensorType& x, const TensorType& y) {
  return {y.num_elements() / y.shape[-1], x.shape[-1], y.shape[-1]};
}

MatrixProduct forward_product(const LinearShape& s, const LinearAttributes& attributes) {
  MatrixProduct product{
      matrix(s.rows, s.in, Tag::ab), matrix(s.in, s.out, Tag::ba), matrix(s.rows, s.out, Tag::ab), {}};
  if (attributes.bias) product.bias = matrix(1, s.out, Tag::ab);
  return product;
}
MatrixProduct backward_input_product(const LinearShape& s) {
  return {matrix(s.rows, s.out, Tag::ab), matrix(s.out, s.in, Tag::ab), matrix(s.rows, s.in, Tag::ab), {}};
}
MatrixProduct backward_weight_product(const LinearShape& s, bool adds) {
  return {matrix(s.out, s.rows, Tag::ba), matrix(s.rows, s.in, Tag::ab), matrix(s.out, s.in, Tag::ab), {}, adds};
}

MatrixProduct product_of(const Op& op) {
  if (op.kind == OpKind::linear)
    return forward_product(shape_of(op.inputs[0], op.outputs[0]), attributes_of<LinearAttributes>(op));
  if (op.kind == OpKind::linear_backward_input) return backward_input_product(shape_of(op.outputs[0], op.inputs[0]));
  return backward_weight_product(shape_of(op.inputs[1], op.inputs[0]), attributes_of<LinearAttributes>(op).adds);
}

dnnl::matmul::primitive_desc describe(const MatrixProduct& product, const CpuContext& context) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (product.adds) {
    dnnl::post_ops sum;
    sum.append_sum();
    attributes.set_post_ops(sum);
  }
  const bool has_bias = product.bias.data.ndims > 0;
  const dnnl::matmul::desc description = has_bias ? dnnl::matmul::desc(product.a, product.b, product.bias, product.c)
                                                  : dnnl::matmul::desc(product.a, product.b, product.c);
  return {description, attributes, dnnl::engine(context.engine, true)};
}

/// Adds columns [begin, end) of a (rows, columns) matrix to `sums`, over the rows in order.
TRAINER_SIMD void add_columns(const float* __restrict x, float* __restrict sums, std::int64_t rows,
                              std::int64_t columns, std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* const values = x + row * columns;
#pragma omp simd
    for (std::int64_t column = begin; column < end; ++column) sums[column] += values[column];
  }
}

/// A product by oneDNN.
class ProductCall {
 public:
  ProductCall(const MatrixProduct& product, const CpuContext& context) : context_(context) {
    const auto description = describe(product, context);
    matmul_ = DnnlCall(description.get());
    matmul_.add_argument(DNNL_ARG_SRC, product.a.data, context);
    matmul_.add_argument(DNNL_ARG_WEIGHTS, product.b.data, context);
    matmul_.add_argument(DNNL_ARG_DST, product.c.data, context);
    matmul_.add_argument(DNNL_ARG_SCRATCHPAD, description.scratchpad_desc().data, context);
    has_bias_ = product.bias.data.ndims > 0;
    if (has_bias_) matmul_.add_argument(DNNL_ARG_BIAS, product.bias.data, context);
  }

  /// The first two inputs and, where the product has one, the third as its bias.
  void run(const OperandAddresses& addresses, void* result) {
    matmul_.set_address(0, addresses.inputs[0]);
    matmul_.set_address(1, addresses.inputs[1]);
    matmul_.set_address(2, result);
    matmul_.set_address(3, addresses.workspace);
    if (has_bias_) matmul_.set_address(4, addresses.inputs[2]);
    matmul_.execute(context_);
  }

 private:
  const CpuContext& context_;
  bool has_bias_ = false;
  DnnlCall matmul_;
};

class LinearKernel final : public CpuKernel {
 public:
  LinearKernel(const Op& op, const CpuContext& context)
      : product_(product_of(op), context),
        attributes_(attributes_of<LinearAttributes>(op)),
        shape_(shape_of(op.inputs[0], op.outputs[0])),
        num_threads_(context.num_threads) {}

  void run(const OperandAddresses& addresses, const StepScalars&) override {
    float* const y = output(addresses, 0);
    if (attributes_.gelu) {
      float* const sums = output(addresses, 1);
      product_.run(addresses, sums);
      gelu_tanh(sums, y, shape_.rows * shape_.out, num_threads_);
      return;
    }
    product_.run(addresses, y);
    if (!attributes_.relu) return;
    relu_in_place(y, shape_.rows * shape_.out, num_threads_);
    if (attributes_.keeps) relu_mask(y, output<std::uint8_t>(addresses, 1), shape_.rows, shape_.out, num_threads_);
  }

 private:
  ProductCall product_;
  LinearAttributes attributes_;
  LinearShape shape_;
  int num_threads_;
};

class LinearBackwardInputKernel final : public CpuKernel {
 public:
  LinearBackwardInputKernel(const Op& op, const CpuContext& context)
      : product_(product_of(op), context),
        through_(attributes_of<LinearAttributes>(op).through),
        shape_(shape_of(op.outputs[0], op.inputs[0])),
        num_threads_(context.num_threads) {}

  void run(const OperandAddresses& addresses, const StepScalars&) override {
    float* const dx = output(addresses, 0);
    product_.run(addresses, dx);
    if (through_ == InputActivation::relu)
      apply_relu_mask(dx, input<std::uint8_t>(addresses, 2), shape_.rows, shape_.in, num_threads_);
    if (through_ == InputActivation::gelu)
      gelu_tanh_backward_in_place(dx, input(addresses, 2), shape_.rows * shape_.in, num_threads_);
  }

 private:
  ProductCall product_;
  InputActivation through_;
  LinearShape shape_;
  int num_threads_;
};

class LinearBackwardWeightKernel final : public CpuKernel {
 public:
  LinearBackwardWeightKernel(const Op& op, const CpuContext& context)
      : product_(product_of(op), context),
        attributes_(attributes_of<LinearAttributes>(op)),
        shape_(shape_of(op.inputs[1], op.inputs[0])),
        num_threads_(context.num_threads) {}

  void run(const OperandAddresses& addresses, const StepScalars&) override {
    product_.run(addresses, attributes_.adds ? modified_input(addresses, 2) : output(addresses, 0));
    if (!attributes_.bias) return;
    float* const db = attributes_.adds ? modified_input(addresses, 3) : output(addresses, 1);
    if (!attributes_.adds) std::fill_n(db, shape_.out, 0.0F);
    add_bias_gradient(input(addresses, 0), db);
  }

 private:
  void add_bias_gradient(const float* dy, float* db) const {
    constexpr std::int64_t block = 128;
    const std::int64_t num_blocks = (shape_.out + block - 1) / block;
    const int num_threads = shape_.rows * shape_.out <= serial_elements ? 1 : num_threads_;
    parallel_tasks(num_threads, num_blocks, [&](std::int64_t i) {
      add_columns(dy, db, shape_.rows, shape_.out, i * block, std::min(shape_.out, (i + 1) * block));
    });
  }

  ProductCall product_;
  LinearAttributes attributes_;
  LinearShape shape_;
  int num_threads_;
};

/// A product reads its weights once for each slice, so that it takes as many rows as keep that cheap.
Cut with_product_rows(Cut cut) {
  cut.least_rows = 64;
  return cut;
}

std::int64_t num_rows_of(const Op& op) { return op.inputs[0].num_elements() / op.inputs[0].shape[-1]; }

std::optional<Cut> cut_linear(const Op& op) { return with_product_rows(cut_forward(op, num_rows_of(op), Part::rows)); }
std::optional<Cut> cut_linear_backward_input(const Op& op) {
  return with_product_rows(cut_input_gradient(op, num_rows_of(op)));
}
std::optional<Cut> cut_linear_backward_weight(const Op& op) {
  Cut cut = with_product_rows(cut_weight_gradient(op, num_rows_of(op)));
  cut.adds_itself = true;
  return cut;
}

std::int64_t linear_workspace_bytes(const Op& op, CpuContext& context) {
  return translating_dnnl_exceptions(
      [&] { return static_cast<std::int64_t>(describe(product_of(op), context).scratchpad_desc().get_size()); });
}

std::unique_ptr<CpuKernel> make_linear_kernel(const Op& op, CpuContext& context) {
  return translating_dnnl_exceptions([&] { return std::make_unique<LinearKernel>(op, context); });
}

std::unique_ptr<CpuKernel> make_linear_backward_input_kernel(const Op& op, CpuContext& context) {
  return translating_dnnl_exceptions([&] { return std::make_unique<LinearBackwardInputKernel>(op, context); });
}

std::unique_ptr<CpuKernel> make_linear_backward_weight_kernel(const Op& op, CpuContext& context) {
  return translating_dnnl_exceptions([&] { return std::make_unique<LinearBackwardWeightKernel>(op, context); });
}

}  // namespace

const CpuOp linear_on_cpu = {make_linear_kernel, cut_linear, linear_workspace_bytes};
const CpuOp linear_backward_input_on_cpu = {make_linear_backward_input_kernel, cut_linear_backward_input,
                                            linear_workspace_bytes};
const CpuOp linear_backward_weight_on_cpu = {make_linear_backward_weight_kernel, cut_linear_backward_weight,
                                             linear_workspace_bytes};

}  // namespace trainer
