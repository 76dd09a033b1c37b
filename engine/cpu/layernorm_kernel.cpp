#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "engine/cpu/element_loop.h"
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

/// One row, in two passes over it: the mean first, then the variance around it, which loses no digits. Without `mean`
/// it is 0, and there is no bias.
TRAINER_SIMD void normalize_row(const float* x, const float* weight, const float* bias, float* y, float* mean,
                                float* rstd, std::int64_t columns, double eps) {
  float sum = 0;
  if (mean != nullptr) {
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < columns; ++i) sum += x[i];
  }
  const float average = sum / static_cast<float>(columns);
  float squares = 0;
#pragma omp simd reduction(+ : squares)
  for (std::int64_t i = 0; i < columns; ++i) squares += (x[i] - average) * (x[i] - average);
  const auto reciprocal =
      static_cast<float>(1 / std::sqrt(static_cast<double>(squares) / static_cast<double>(columns) + eps));
  if (mean != nullptr) *mean = average;
  *rstd = reciprocal;
  if (bias == nullptr && weight != nullptr) {
#pragma omp simd
    for (std::int64_t i = 0; i < columns; ++i) y[i] = (x[i] - average) * reciprocal * weight[i];
  } else if (weight != nullptr) {
#pragma omp simd
    for (std::int64_t i = 0; i < columns; ++i) y[i] = (x[i] - average) * reciprocal * weight[i] + bias[i];
  } else {
#pragma omp simd
    for (std::int64_t i = 0; i < columns; ++i) y[i] = (x[i] - average) * reciprocal;
  }
}

// dx = rstd · (g − Σg/C − x̂·Σ(g·x̂)/C) with g = dy·weight, x̂ = (x − mean)·rstd; without a mean it is 0, and Σg counts
// for nothing.
TRAINER_SIMD void backward_row(const float* dy, const float* x, const float* weight, float* dx, const float* row_mean,
                               float rstd, std::int64_t columns, float* dweight, float* dbias) {
  const float mean = row_mean == nullptr ? 0.0F : *row_mean;
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
  sum = row_mean == nullptr ? 0.0F : sum / static_cast<float>(columns);
  product /= static_cast<float>(columns);
  if (dbias != nullptr) {
#pragma omp simd
    for (std::int64_t i = 0; i < columns; ++i) dbias[i] += dy[i];
  }
  if (weight != nullptr) {
#pragma omp simd
    for (std::int64_t i = 0; i < columns; ++i) {
      const float normal = (x[i] - mean) * rstd;
      const float gradient = dy[i];  // dx may be dy
      dweight[i] += gradient * normal;
      dx[i] = rstd * (gradient * weight[i] - sum - normal * product);
    }
  } else {
#pragma omp simd
    for (std::int64_t i = 0; i < columns; ++i) dx[i] = rstd * (dy[i] - sum - (x[i] - mean) * rstd * product);
  }
}

TRAINER_SIMD void add_row(const float* a, const float* b, float* sum, std::int64_t columns) {
#pragma omp simd
  for (std::int64_t i = 0; i < columns; ++i) sum[i] = a[i] + b[i];
}

/// Row `row` of a tensor of `type`.
std::byte* row_at(void* tensor, DType type, std::int64_t row, std::int64_t columns) {
  return static_cast<std::byte*>(tensor) + row * columns * static_cast<std::int64_t>(size_of(type));
}

/// to = a, given as f32, and b, of `type`; to may be a.
void add_typed_row(DType type, const float* a, const void* b, float* to, std::int64_t columns) {
  if (type == DType::f32) {
    add_row(a, static_cast<const float*>(b), to, columns);
    return;
  }
  float widened[stack_elements];
  for (std::int64_t done = 0; done < columns; done += stack_elements) {
    const std::int64_t count = std::min(stack_elements, columns - done);
    widen(type, static_cast<const std::uint16_t*>(b) + done, widened, count);
    add_row(a + done, widened, to + done, count);
  }
}

/// Lines of f32 for each thread, for rows of 16 bit that are computed with where they are widened to.
struct Lines {
  DType type;
  std::int64_t columns;
  int num_threads, per_thread;

  Lines(const Op& op, const CpuContext& context)
      : type(op.inputs[0].dtype),
        columns(op.inputs[0].shape[-1]),
        num_threads(threads_for(rows_of(op.inputs[0]), context)),
        per_thread(op.kind == OpKind::layernorm ? 1 : 2) {
    num_threads = static_cast<int>(std::min<std::int64_t>(num_threads, rows_of(op.inputs[0]).rows));
  }

  std::int64_t num_bytes() const {
    if (type == DType::f32) return 0;
    return num_threads * per_thread * columns * static_cast<std::int64_t>(sizeof(float));
  }
  /// The calling thread's line; `address` is that of all.
  float* line(void* address, int which) const {
    return static_cast<float*>(address) + (omp_get_thread_num() * per_thread + which) * columns;
  }
  /// A row of a tensor as f32, where it lies or in a line.
  const float* read(void* tensor, std::int64_t row, void* lines, int which) const {
    const void* const from = row_at(tensor, type, row, columns);
    if (type == DType::f32) return static_cast<const float*>(from);
    widen(type, from, line(lines, which), columns);
    return line(lines, which);
  }
  /// Where a row of a tensor is to be computed, which `written` then stores.
  float* write(void* tensor, std::int64_t row, void* lines, int which) const {
    return type == DType::f32 ? reinterpret_cast<float*>(row_at(tensor, type, row, columns)) : line(lines, which);
  }
  void written(void* tensor, std::int64_t row, void* lines, int which) const {
    if (type != DType::f32) narrow(type, line(lines, which), row_at(tensor, type, row, columns), columns);
  }
};

/// Outputs of a forward op.
struct RowStatistics {
  float* mean;  ///< null where none is subtracted
  float* rstd;

  RowStatistics(const LayerNormAttributes& attributes, const OperandAddresses& addresses)
      : mean(attributes.centres ? output(addresses, 1) : nullptr),
        rstd(output(addresses, layernorm_places(attributes).rstd)) {}
  float* mean_of(std::int64_t row) const { return mean == nullptr ? nullptr : mean + row; }
};

/// Sums over rows that a backward op makes: for dweight, and for dbias where there are biases.
std::int64_t num_sums(const LayerNormAttributes& attributes) {
  if (!attributes.affine) return 0;
  return attributes.centres ? 2 : 1;
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

/// The sum is rounded to its type before anything is computed from it.
std::unique_ptr<CpuKernel> make_adding_kernel(const Op& op, const CpuContext& context) {
  return make_kernel([attributes = attributes_of<LayerNormAttributes>(op), shape = rows_of(op.inputs[0]),
                      rows = Lines(op, context)](const OperandAddresses& addresses, const StepScalars&) {
    const float* const weight = attributes.affine ? input(addresses, 1) : nullptr;
    const float* const bias = attributes.affine && attributes.centres ? input(addresses, 2) : nullptr;
    void* const addend = addresses.inputs.back();
    void* const sum = addresses.outputs.back();
    void* const y = addresses.outputs[0];
    const RowStatistics statistics(attributes, addresses);
    void* const lines = addresses.workspace;
    parallel_tasks(rows.num_threads, shape.rows, [&](std::int64_t row) {
      const float* const x = rows.read(addresses.inputs[0], row, lines, 0);
      float* const total = rows.write(sum, row, lines, 0);
      add_typed_row(rows.type, x, row_at(addend, rows.type, row, shape.columns), total, shape.columns);
      rows.written(sum, row, lines, 0);
      normalize_row(rows.read(sum, row, lines, 0), weight, bias, rows.write(y, row, lines, 0), statistics.mean_of(row),
                    statistics.rstd + row, shape.columns, attributes.eps);
      rows.written(y, row, lines, 0);
    });
  });
}

std::optional<Cut> cut_layernorm(const Op& op) {
  if (attributes_of<LayerNormAttributes>(op).adds) return std::nullopt;
  return cut_forward(op, rows_of(op.inputs[0]).rows, Part::rows);
}

std::optional<Cut> cut_layernorm_backward(const Op& op) {
  const auto& attributes = attributes_of<LayerNormAttributes>(op);
  if (attributes.adds) return std::nullopt;
  const LayerNormPlaces places = layernorm_places(attributes);
  return Cut{.num_rows = rows_of(op.inputs[0]).rows,
             .inputs = parts(op.inputs.size(), places.backward_rstd + 1, Part::rows, Part::whole),
             .outputs = parts(op.outputs.size(), 1, Part::rows, Part::sum)};
}

/// Lines of rows that are widened. Before them, for each part of the rows, the sums over it.
std::int64_t layernorm_workspace_bytes(const Op& op, CpuContext& context) {
  const std::int64_t lines = Lines(op, context).num_bytes();
  if (op.kind == OpKind::layernorm) return lines;
  const Rows shape = rows_of(op.inputs[0]);
  const std::int64_t per_part = num_sums(attributes_of<LayerNormAttributes>(op)) * shape.columns;
  return lines + parts_of(shape).num_parts * per_part * static_cast<std::int64_t>(sizeof(float));
}

std::unique_ptr<CpuKernel> make_layernorm_kernel(const Op& op, CpuContext& context) {
  const auto& attributes = attributes_of<LayerNormAttributes>(op);
  const Rows shape = rows_of(op.inputs[0]);
  if (attributes.adds) return make_adding_kernel(op, context);
  return make_kernel([shape, attributes, threads = threads_for(shape, context)](const OperandAddresses& addresses,
                                                                                const StepScalars&) {
    const float* const x = input(addresses, 0);
    const float* const weight = attributes.affine ? input(addresses, 1) : nullptr;
    const float* const bias = attributes.affine && attributes.centres ? input(addresses, 2) : nullptr;
    float* const y = output(addresses, 0);
    const RowStatistics statistics(attributes, addresses);
    parallel_tasks(threads, shape.rows, [&](std::int64_t row) {
      const std::int64_t at = row * shape.columns;
      normalize_row(x + at, weight, bias, y + at, statistics.mean_of(row), statistics.rstd + row, shape.columns,
                    attributes.eps);
    });
  });
}

std::unique_ptr<CpuKernel> make_layernorm_backward_kernel(const Op& op, CpuContext& context) {
  const Rows shape = rows_of(op.inputs[0]);
  return make_kernel([shape, attributes = attributes_of<LayerNormAttributes>(op), rows = Lines(op, context)](
                         const OperandAddresses& addresses, const StepScalars&) {
    const std::size_t rstd_place = layernorm_places(attributes).backward_rstd;
    void* const added = attributes.adds ? addresses.inputs.back() : nullptr;
    const float* const mean = attributes.centres ? input(addresses, 2) : nullptr;
    const float* const rstd = input(addresses, rstd_place);
    const float* const weight = attributes.affine ? input(addresses, rstd_place + 1) : nullptr;
    void* const dx = addresses.outputs[0];
    auto* const sums = static_cast<float*>(addresses.workspace);
    const RowParts parts = parts_of(shape);
    const std::int64_t columns = shape.columns, per_part = num_sums(attributes) * columns;
    float* const lines = sums + parts.num_parts * per_part;
    parallel_tasks(rows.num_threads, parts.num_parts, [&](std::int64_t part) {
      float* const dweight = per_part > 0 ? sums + part * per_part : nullptr;
      float* const dbias = per_part > columns ? dweight + columns : nullptr;
      if (dweight != nullptr) std::fill_n(dweight, per_part, 0.0F);
      for (std::int64_t row = parts.begin(part); row < parts.end(part); ++row) {
        const float* const gradient = rows.read(addresses.inputs[0], row, lines, 0);
        const float* const values = rows.read(addresses.inputs[1], row, lines, 1);
        float* const result = rows.write(dx, row, lines, 0);
        backward_row(gradient, values, weight, result, mean == nullptr ? nullptr : mean + row, rstd[row], columns,
                     dweight, dbias);
        if (added != nullptr) add_typed_row(rows.type, result, row_at(added, rows.type, row, columns), result, columns);
        rows.written(dx, row, lines, 0);
      }
    });
    for (std::int64_t i = 0; i < num_sums(attributes); ++i)
      add_parts(sums + i * columns, parts.num_parts, per_part, columns,
                output(addresses, static_cast<std::size_t>(i + 1)));
  });
}

}  // namespace

const CpuOp layernorm_on_cpu = {make_layernorm_kernel, cut_layernorm, layernorm_workspace_bytes};
const CpuOp layernorm_backward_on_cpu = {make_layernorm_backward_kernel, cut_layernorm_backward,
                                         layernorm_workspace_bytes};

}  // namespace trainer
