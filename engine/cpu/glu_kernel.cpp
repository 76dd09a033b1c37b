#include <algorithm>

#include "engine/cpu/activation_functions.h"
#include "engine/cpu/element_loop.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/parallel.h"

namespace trainer {

namespace {

// A loop for each function; y may be gate, dgate may be dy or gate, and dup may be up.
#define TRAINER_GLU_LOOPS(name, function, slope)                                                                \
  TRAINER_SIMD void name##_gating(const float* gate, const float* up, float* y, std::int64_t count) {           \
    _Pragma("omp simd") for (std::int64_t i = 0; i < count; ++i) y[i] = activations::function(gate[i]) * up[i]; \
  }                                                                                                             \
  TRAINER_SIMD void name##_gating_backward(const float* dy, const float* gate, const float* up, float* dgate,   \
                                           float* dup, std::int64_t count) {                                    \
    _Pragma("omp simd") for (std::int64_t i = 0; i < count; ++i) {                                              \
      const float v = gate[i], d = dy[i], u = up[i];                                                            \
      dgate[i] = d * u * activations::slope(v);                                                                 \
      dup[i] = d * activations::function(v);                                                                    \
    }                                                                                                           \
  }
TRAINER_GLU_LOOPS(silu, silu, silu_slope)
TRAINER_GLU_LOOPS(gelu, gelu, gelu_slope)
TRAINER_GLU_LOOPS(gelu_tanh, gelu_tanh_value, gelu_tanh_slope)
#undef TRAINER_GLU_LOOPS

struct GluLoops {
  void (*forward)(const float* gate, const float* up, float* y, std::int64_t count);
  void (*backward)(const float* dy, const float* gate, const float* up, float* dgate, float* dup, std::int64_t count);
};

GluLoops glu_loops_of(const Op& op) {
  const auto& attributes = attributes_of<GluAttributes>(op);
  if (attributes.function == Activation::silu) return {silu_gating, silu_gating_backward};
  require_internal(attributes.function == Activation::gelu, "gates are of silu or gelu");
  if (attributes.approximate == GeluApproximation::tanh) return {gelu_tanh_gating, gelu_tanh_gating_backward};
  return {gelu_gating, gelu_gating_backward};
}

/// Calls piece(row, first column, count) for all of (rows, columns), in threads; a piece has at most stack_elements.
template <typename Piece>
void for_pieces_of_rows(int num_threads, const GluLayout& layout, Piece&& piece) {
  const std::int64_t rows = layout.rows, columns = layout.columns;
  const RowParts blocks = row_parts(rows, std::max<std::int64_t>(1, 8192 / columns), rows);
  parallel_tasks(rows * columns <= serial_elements ? 1 : num_threads, blocks.num_parts, [&](std::int64_t block) {
    for (std::int64_t row = blocks.begin(block); row < blocks.end(block); ++row)
      for (std::int64_t first = 0; first < columns; first += stack_elements)
        piece(row, first, std::min(stack_elements, columns - first));
  });
}

/// Element `at` of what begins at `start`.
template <typename Pointer>
auto element_at(DType type, Pointer start, std::int64_t at) {
  using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<Pointer>>, const std::byte, std::byte>;
  return static_cast<Byte*>(start) + at * static_cast<std::int64_t>(size_of(type));
}

const float* widened(DType type, const std::byte* from, float* scratch, std::int64_t count) {
  if (type == DType::f32) return reinterpret_cast<const float*>(from);
  widen(type, from, scratch, count);
  return scratch;
}

std::unique_ptr<CpuKernel> make_glu_kernel(const Op& op, CpuContext& context) {
  return make_kernel([function = glu_loops_of(op).forward, layout = glu_layout(op), type = op.inputs[0].dtype,
                      threads = context.num_threads](const OperandAddresses& addresses, const StepScalars&) {
    const void* const gates = addresses.inputs[0];
    const void* const ups = layout.packed ? element_at(type, gates, layout.columns) : addresses.inputs[1];
    for_pieces_of_rows(threads, layout, [&](std::int64_t row, std::int64_t first, std::int64_t count) {
      float wide[2][stack_elements];
      const std::int64_t at = row * layout.row_elements + first;
      std::byte* const y = element_at(type, addresses.outputs[0], row * layout.columns + first);
      const bool is_f32 = type == DType::f32;
      float* const result = is_f32 ? reinterpret_cast<float*>(y) : wide[0];
      function(widened(type, element_at(type, gates, at), wide[0], count),
               widened(type, element_at(type, ups, at), wide[1], count), result, count);
      if (!is_f32) narrow(type, result, y, count);
    });
  });
}

std::unique_ptr<CpuKernel> make_glu_backward_kernel(const Op& op, CpuContext& context) {
  return make_kernel([function = glu_loops_of(op).backward, layout = glu_layout(op), type = op.inputs[0].dtype,
                      threads = context.num_threads](const OperandAddresses& addresses, const StepScalars&) {
    const void* const gates = addresses.inputs[1];
    const void* const ups = layout.packed ? element_at(type, gates, layout.columns) : addresses.inputs[2];
    void* const dgates = addresses.outputs[0];
    void* const dups = layout.packed ? element_at(type, dgates, layout.columns) : addresses.outputs[1];
    for_pieces_of_rows(threads, layout, [&](std::int64_t row, std::int64_t first, std::int64_t count) {
      float wide[3][stack_elements];
      const std::int64_t at = row * layout.row_elements + first;
      const std::byte* const dy = element_at(type, addresses.inputs[0], row * layout.columns + first);
      std::byte *const dgate = element_at(type, dgates, at), *const dup = element_at(type, dups, at);
      const bool is_f32 = type == DType::f32;
      float* const results[] = {is_f32 ? reinterpret_cast<float*>(dgate) : wide[0],
                                is_f32 ? reinterpret_cast<float*>(dup) : wide[1]};
      function(widened(type, dy, wide[2], count), widened(type, element_at(type, gates, at), wide[0], count),
               widened(type, element_at(type, ups, at), wide[1], count), results[0], results[1], count);
      if (is_f32) return;
      narrow(type, results[0], dgate, count);
      narrow(type, results[1], dup, count);
    });
  });
}

}  // namespace

const CpuOp glu_on_cpu = {make_glu_kernel, takes_16_bit};
const CpuOp glu_backward_on_cpu = {make_glu_backward_kernel, takes_16_bit};

}  // namespace trainer
