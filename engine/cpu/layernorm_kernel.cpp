#include <cmath>

#include "engine/cpu/kernels.h"
#include "engine/cpu/parallel.h"
#include "engine/simd.h"

namespace trainer {

namespace {

struct Rows {
  std::int64_t rows = 0, columns = 0;
};

Rows rows_of(const TensorType& x) { return {x.num_elements() / x.shape[-1], x.shape[-1]}; }
RowParts parts_of(const Rows& shape) { return row_parts(shape.rows, 16, 32); }
int threads_for(const Rows& shape, const CpuContext& context) {
  return shape.rows * shape.columns <= serial_elements ? 1 : context.num_threads;
}

/// One row, in two passes over it: the mean first, then the variance around it, which loses no digits.
TRAINER_SIMD void normalize_row(const float* x, const float* weight, const float* bias, float* y, float* mean,
                                float* rstd, std::int64_t columns, double eps) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < columns; ++i) sum += x[i];
  const float average = sum / static_cast<float>(columns);
  float squares = 0;
#pragma omp simd reduction(+ : squares)
  for (std::int64_t i = 0; i < columns; ++i) squares += (x[i] - average) * (x[i] - average);
  const auto reciprocal =
      static_cast<float>(1 / std::sqrt(static_cast<double>(squares) / static_cast<double>(columns) + eps));
  *mean = average;
  *rstd = reciprocal;
  if (weight != nullptr) {
#pragma omp simd
    for (std::int64_t i = 0; i < columns; ++i) y[i] = (x[i] - average) * reciprocal * weight[i] + bias[i];
  } else {
#pragma omp simd
    for (std::int64_t i = 0; i < columns; ++i) y[i] = (x[i] - average) * reciprocal;
  }
}

// dx = rstd · (g − Σg/C − x̂·Σ(g·x̂)/C) with g = dy·weight, x̂ = (x − mean)·rstd
TRAINER_SIMD void backward_row(const float* dy, const float* x, const float* weight, float* dx, float mean, float rstd,
                               std::int64_t columns, float* dweight, float* dbias) {
  float sum = 0;
  float product = 0;
  if (weight != nullptr) {
#pragma omp simd reduction(+ : sum, product)
    for (std::int64_t i = 0; i < columns; ++i) {
      const float g = dy[i] * weight[i];
      sum += g;
      product += g * ((x[i] - mean) * rstd);
    }
  } else {
#pragma omp simd reduction(+ : sum, product)
    for (std::int64_t i = 0; i < columns; ++i) {
      sum += dy[i];
      product += dy[i] * ((x[i] - mean) * rstd);
    }
  }
  sum /= static_cast<float>(columns);
  product /= static_cast<float>(columns);
  if (weight != nullptr) {
#pragma omp simd
    for (std::int64_t i = 0; i < columns; ++i) {
      const float normal = (x[i] - mean) * rstd;
      const float gradient = dy[i];  // dx may be dy
      dweight[i] += gradient * normal;
      dbias[i] += gradient;
      dx[i] = rstd * (gradient * weight[i] - sum - normal * product);
    }
  } else {
#pragma omp simd
    for (std::int64_t i = 0; i < columns; ++i) dx[i] = rstd * (dy[i] - sum - (x[i] - mean) * rstd * product);
  }
}

/// sums (count) = the parts (num_parts, stride apart) added up in f64, in order.
TRAINER_SIMD void add_parts(const float* parts, std::int64_t num_parts, std::int64_t stride, std::int64_t count,
                            float* sums) {
  for (std::int64_t i = 0; i < count; ++i) {
    double sum = 0;
    for (std::int64_t part = 0; part < num_parts; ++part) sum += static_cast<double>(parts[part * stride + i]);
    sums[i] = static_cast<float>(sum);
  }
}

}  // namespace

/// For each part of the rows, the sums for dweight and dbias.
std::int64_t layernorm_backward_workspace_bytes(const Op& op) {
  if (!attributes_of<LayerNormAttributes>(op).affine) return 0;
  const Rows shape = rows_of(op.inputs[0]);
  return parts_of(shape).num_parts * 2 * shape.columns * static_cast<std::int64_t>(sizeof(float));
}

std::unique_ptr<CpuKernel> make_layernorm_kernel(const Op& op, CpuContext& context) {
  const auto& attributes = attributes_of<LayerNormAttributes>(op);
  const Rows shape = rows_of(op.inputs[0]);
  return make_kernel([shape, affine = attributes.affine, eps = attributes.eps, threads = threads_for(shape, context)](
                         const OperandAddresses& addresses, const StepScalars&) {
    const float* const x = input(addresses, 0);
    const float* const weight = affine ? input(addresses, 1) : nullptr;
    const float* const bias = affine ? input(addresses, 2) : nullptr;
    float* const y = output(addresses, 0);
    float* const mean = output(addresses, 1);
    float* const rstd = output(addresses, 2);
    parallel_tasks(threads, shape.rows, [&](std::int64_t row) {
      const std::int64_t at = row * shape.columns;
      normalize_row(x + at, weight, bias, y + at, mean + row, rstd + row, shape.columns, eps);
    });
  });
}

std::unique_ptr<CpuKernel> make_layernorm_backward_kernel(const Op& op, CpuContext& context) {
  const Rows shape = rows_of(op.inputs[0]);
  return make_kernel([shape, affine = attributes_of<LayerNormAttributes>(op).affine,
                      threads = threads_for(shape, context)](const OperandAddresses& addresses, const StepScalars&) {
    const float* const dy = input(addresses, 0);
    const float* const x = input(addresses, 1);
    const float* const mean = input(addresses, 2);
    const float* const rstd = input(addresses, 3);
    const float* const weight = affine ? input(addresses, 4) : nullptr;
    float* const dx = output(addresses, 0);
    auto* const sums = static_cast<float*>(addresses.workspace);
    const RowParts parts = parts_of(shape);
    const std::int64_t columns = shape.columns;
    parallel_tasks(threads, parts.num_parts, [&](std::int64_t part) {
      float* const dweight = affine ? sums + part * 2 * columns : nullptr;
      float* const dbias = affine ? dweight + columns : nullptr;
      if (affine) std::fill_n(dweight, 2 * columns, 0.0F);
      for (std::int64_t row = parts.begin(part); row < parts.end(part); ++row) {
        const std::int64_t at = row * columns;
        backward_row(dy + at, x + at, weight, dx + at, mean[row], rstd[row], columns, dweight, dbias);
      }
    });
    if (!affine) return;
    add_parts(sums, parts.num_parts, 2 * columns, columns, output(addresses, 1));
    add_parts(sums + columns, parts.num_parts, 2 * columns, columns, output(addresses, 2));
  });
}

}  // namespace trainer
