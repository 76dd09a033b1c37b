#include "tests/cuda/host_cublaslt.h"

#include <cmath>
#include <initializer_list>

#include "engine/errors.h"

namespace trainer::cuda {

namespace {

using E = CublasLtEpilogue;

/// Columns one after the other.
float& at(float* matrix, std::int64_t leading_dimension, std::int64_t row, std::int64_t column) {
  return matrix[column * leading_dimension + row];
}
float at(const void* matrix, const CublasLtLayout& layout, bool transposed, std::int64_t row, std::int64_t column) {
  const std::int64_t i = transposed ? column : row;
  const std::int64_t j = transposed ? row : column;
  require_internal(i < layout.rows && j < layout.columns, "an element lies within its matrix");
  return static_cast<const float*>(matrix)[j * layout.leading_dimension + i];
}

bool one_of(E epilogue, std::initializer_list<E> list) {
  for (const E each : list)
    if (each == epilogue) return true;
  return false;
}

bool adds_bias(E e) { return one_of(e, {E::bias, E::relu_bias, E::relu_aux_bias, E::gelu_aux_bias}); }
bool has_mask(E e) { return one_of(e, {E::relu_aux, E::relu_aux_bias, E::drelu}); }
bool has_gelu_matrix(E e) { return one_of(e, {E::gelu_aux, E::gelu_aux_bias, E::dgelu}); }

void check(const CublasLtCall& call, const CublasLtOperands& operands) {
  for (const CublasLtLayout& layout : {call.a, call.b, call.d})
    require_internal(layout.rows > 0 && layout.columns > 0 && layout.leading_dimension >= layout.rows,
                     "a leading dimension covers the rows");
  const std::int64_t k = call.transpose_a ? call.a.rows : call.a.columns;
  require_internal((call.transpose_b ? call.b.columns : call.b.rows) == k, "A and B agree on k");
  require_internal((call.transpose_a ? call.a.columns : call.a.rows) == call.d.rows, "op(A) has the rows of D");
  require_internal((call.transpose_b ? call.b.rows : call.b.columns) == call.d.columns, "op(B) has the columns of D");
  require_internal(call.type == DType::f32 && call.result_type == DType::f32, "this interpreter knows f32");
  require_internal(call.beta == 0 || call.epilogue == E::standard,
                   "what beta does before other epilogues is not asked");
  if (has_mask(call.epilogue))
    require_internal(call.aux_leading_dimension % 128 == 0 && call.aux_leading_dimension >= call.d.rows,
                     "a mask's leading dimension is a multiple of 128 bits that covers D's rows");
  if (has_gelu_matrix(call.epilogue))
    require_internal(call.aux_leading_dimension % 8 == 0 && call.aux_leading_dimension >= call.d.rows,
                     "GELU's input has a leading dimension that 8 divides and that covers D's rows");
  require_internal((operands.aux != nullptr) == (has_mask(call.epilogue) || has_gelu_matrix(call.epilogue)),
                   "aux is given where the epilogue has one");
  const bool bias_pointer = adds_bias(call.epilogue) || call.epilogue == E::bgradb;
  require_internal((operands.bias != nullptr) == bias_pointer && call.has_bias_pointer == bias_pointer,
                   "a bias is given where the epilogue has one");
  if (call.epilogue == E::bgradb) require_internal(call.transpose_b, "BGRADB wants op(B) = T");
  if (one_of(call.epilogue, {E::drelu, E::dgelu})) require_internal(k > 1, "DRELU and DGELU want k > 1");
}

double gelu(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * std::pow(x, 3)))); }

/// By the chain rule's definition, not a formula: a central difference, exact to 1e-9.
double gelu_slope(double x) { return (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5; }

}  // namespace

void run_host_cublaslt(const CublasLtCall& call, const CublasLtOperands& operands) {
  check(call, operands);
  const std::int64_t m = call.d.rows, n = call.d.columns;
  const std::int64_t k = call.transpose_a ? call.a.rows : call.a.columns;
  auto* const bias = static_cast<float*>(operands.bias);
  auto* const mask = static_cast<unsigned char*>(operands.aux);
  auto* const gelu_input = static_cast<float*>(operands.aux);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < m; ++i) {
      double x = 0;
      for (std::int64_t l = 0; l < k; ++l) {
        x += static_cast<double>(at(operands.a, call.a, call.transpose_a, i, l)) *
             static_cast<double>(at(operands.b, call.b, call.transpose_b, l, j));
      }
      // C is D. Where beta is 0 it is not read.
      if (call.beta != 0)
        x += static_cast<double>(call.beta) *
             static_cast<double>(at(static_cast<float*>(operands.d), call.d.leading_dimension, i, j));
      if (adds_bias(call.epilogue)) x += static_cast<double>(bias[i]);
      const std::int64_t bit = j * call.aux_leading_dimension + i;
      if (one_of(call.epilogue, {E::relu_aux, E::relu_aux_bias})) {
        if (x > 0) {
          mask[bit / 8] = static_cast<unsigned char>(mask[bit / 8] | (1 << bit % 8));
        } else {
          mask[bit / 8] = static_cast<unsigned char>(mask[bit / 8] & ~(1 << bit % 8));
        }
      }
      if (one_of(call.epilogue, {E::relu, E::relu_bias, E::relu_aux, E::relu_aux_bias})) x = x < 0 ? 0 : x;
      if (call.epilogue == E::drelu && (mask[bit / 8] & (1 << bit % 8)) == 0) x = 0;
      if (one_of(call.epilogue, {E::gelu_aux, E::gelu_aux_bias})) {
        at(gelu_input, call.aux_leading_dimension, i, j) = static_cast<float>(x);
        x = gelu(x);
      }
      if (call.epilogue == E::dgelu)
        x *= gelu_slope(static_cast<double>(at(gelu_input, call.aux_leading_dimension, i, j)));
      at(static_cast<float*>(operands.d), call.d.leading_dimension, i, j) = static_cast<float>(x);
    }
  }
  if (call.epilogue != E::bgradb) return;
  for (std::int64_t j = 0; j < n; ++j) {
    double sum = 0;
    for (std::int64_t l = 0; l < k; ++l) sum += static_cast<double>(at(operands.b, call.b, call.transpose_b, l, j));
    bias[j] = static_cast<float>(sum);
  }
}

}  // namespace trainer::cuda
