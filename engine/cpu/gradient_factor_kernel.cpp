#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>
#include <vector>

#include "engine/cpu/kernels.h"
#include "engine/cpu/parallel.h"
#include "engine/cpu/tensor_blocks.h"
#include "engine/half.h"
#include "engine/ops/exact_sum.h"
#include "engine/simd.h"

namespace trainer {

namespace {

// No template, which could not be compiled for each level of the processor.
#define TRAINER_SUM_SQUARES(name, T)                                                         \
  TRAINER_SIMD double name(const T* x, std::int64_t begin, std::int64_t end) {               \
    double sum = 0;                                                                          \
    _Pragma("omp simd reduction(+ : sum)") for (std::int64_t i = begin; i < end; ++i) sum += \
        static_cast<double>(to_float(x[i])) * static_cast<double>(to_float(x[i]));           \
    return sum;                                                                              \
  }
TRAINER_SUM_SQUARES(sum_squares_f32, float)
TRAINER_SUM_SQUARES(sum_squares_f16, Float16)
TRAINER_SUM_SQUARES(sum_squares_bf16, BFloat16)
#undef TRAINER_SUM_SQUARES

double sum_squares(DType type, const void* x, const TensorBlock& block) {
  switch (type) {
    case DType::f16:
      return sum_squares_f16(static_cast<const Float16*>(x), block.begin, block.end);
    case DType::bf16:
      return sum_squares_bf16(static_cast<const BFloat16*>(x), block.begin, block.end);
    default:
      return sum_squares_f32(static_cast<const float*>(x), block.begin, block.end);
  }
}

/// The squares of an op's gradients, by blocks.
class SquaresSum {
 public:
  /// Those of inputs from `first` on.
  SquaresSum(const Op& op, std::size_t first, int num_threads) {
    for (const TensorType& operand : op.inputs) types_.push_back(operand.dtype);
    for (std::size_t i = first; i < op.inputs.size(); ++i) append_tensor_blocks(op.inputs[i], i, blocks_);
    num_threads_ = blocks_.size() < 2 ? 1 : num_threads;
  }

  double operator()(const OperandAddresses& addresses) const {
    auto* const sums = static_cast<double*>(addresses.workspace);
    const auto num_blocks = static_cast<std::int64_t>(blocks_.size());
    parallel_tasks(num_threads_, num_blocks, [&](std::int64_t i) {
      const TensorBlock& block = blocks_[static_cast<std::size_t>(i)];
      sums[i] = sum_squares(types_[block.tensor], addresses.inputs[block.tensor], block);
    });
    double sum = 0;
    for (std::int64_t i = 0; i < num_blocks; ++i) sum += sums[i];
    return sum;
  }

 private:
  std::vector<TensorBlock> blocks_;
  std::vector<DType> types_;
  int num_threads_ = 1;
};

/// The same, added exactly.
class ExactSquaresSum {
 public:
  ExactSquaresSum(const Op& op, int num_threads) : num_threads_(num_threads) {
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      types_.push_back(op.inputs[i].dtype);
      append_tensor_blocks(op.inputs[i], i, blocks_);
    }
  }

  void operator()(const OperandAddresses& addresses) const {
    static_assert(tensor_block_elements % exact_block_elements == 0);
    auto* const sum = output<std::int64_t>(addresses, 0);
    std::fill_n(sum, num_exact_sum, 0);
    std::mutex adding;
    parallel_tasks(blocks_.size() < 2 ? 1 : num_threads_, std::ssize(blocks_), [&](std::int64_t i) {
      const TensorBlock& block = blocks_[static_cast<std::size_t>(i)];
      std::array<std::int64_t, num_exact_sum> own{};
      for (std::int64_t begin = block.begin; begin < block.end; begin += exact_block_elements) {
        const TensorBlock few{block.tensor, begin, std::min(begin + exact_block_elements, block.end)};
        add_exactly(sum_squares(types_[block.tensor], addresses.inputs[block.tensor], few), own.data());
      }
      const std::lock_guard lock(adding);
      for (std::size_t digit = 0; digit < own.size(); ++digit) sum[digit] += own[digit];
    });
  }

 private:
  std::vector<TensorBlock> blocks_;
  std::vector<DType> types_;
  int num_threads_ = 1;
};

std::size_t first_gradient(const Op& op) {
  return op.kind == OpKind::gradient_factor && attributes_of<GradientFactorAttributes>(op).scaled ? 1 : 0;
}
bool is_given_squares(const Op& op) {
  return op.inputs.back().dtype == DType::f64 || op.inputs.back().dtype == DType::i64;
}

bool is_exact(const Op& op) {
  return op.kind == OpKind::gradient_squares && attributes_of<GradientSquaresAttributes>(op).exact;
}

/// One sum a block.
std::int64_t squares_workspace_bytes(const Op& op, CpuContext&) {
  if (is_given_squares(op) || is_exact(op)) return 0;
  std::int64_t num_blocks = 0;
  for (std::size_t i = first_gradient(op); i < op.inputs.size(); ++i) num_blocks += num_tensor_blocks(op.inputs[i]);
  return num_blocks * static_cast<std::int64_t>(sizeof(double));
}

std::unique_ptr<CpuKernel> make_gradient_squares_kernel(const Op& op, CpuContext& context) {
  if (is_exact(op))
    return make_kernel([squares = ExactSquaresSum(op, context.num_threads)](
                           const OperandAddresses& addresses, const StepScalars&) { squares(addresses); });
  return make_kernel(
      [squares = SquaresSum(op, 0, context.num_threads)](const OperandAddresses& addresses, const StepScalars&) {
        *output<double>(addresses, 0) = squares(addresses);
      });
}

std::unique_ptr<CpuKernel> make_gradient_factor_kernel(const Op& op, CpuContext& context) {
  const int given = is_given_squares(op) ? static_cast<int>(op.inputs.size()) - 1 : -1;
  const bool is_exact = op.inputs.back().dtype == DType::i64;
  return make_kernel([given, is_exact, squares = SquaresSum(op, first_gradient(op), context.num_threads),
                      attributes = attributes_of<GradientFactorAttributes>(op)](const OperandAddresses& addresses,
                                                                                const StepScalars&) {
    const double sum = given < 0  ? squares(addresses)
                       : is_exact ? exact_total(input<std::int64_t>(addresses, given))
                                  : *input<double>(addresses, given);
    const double unscale = attributes.scaled ? 1 / input<double>(addresses, 0)[loss_scale_factor] : 1;
    const double norm = std::sqrt(sum) * unscale;
    const double clip = attributes.clip_norm > 0 ? attributes.clip_norm / (norm + 1e-6) : 1;
    float* const result = output(addresses, 0);
    result[gradient_norm_value] = static_cast<float>(norm);
    result[gradient_multiplier] = static_cast<float>(clip > 1 ? unscale : clip * unscale);  // NaN stays
    // The squares of numbers that f16, bf16 or f32 holds never overflow f64.
    result[gradients_finite] = std::isfinite(sum) ? 1.0F : 0.0F;
  });
}

}  // namespace

const CpuOp gradient_squares_on_cpu = {make_gradient_squares_kernel, takes_16_bit, squares_workspace_bytes};
const CpuOp gradient_factor_on_cpu = {make_gradient_factor_kernel, takes_16_bit, squares_workspace_bytes};

}  // namespace trainer
