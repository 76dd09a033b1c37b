#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "cuda/launch/stream.h"
#include "cuda/library/library.h"
#include "cuda/model/rank_sums.h"
#include "engine/device/device.h"

namespace trainer::cuda {

class GroupLinks;
class SlotCopies;
class StartedExchanges;

/// What every kernel of one CUDA device shares. The device owns all of it and outlives its kernels.
struct CudaContext {
  Stream stream = nullptr;  ///< where kernels are queued now: they refer to it, for it changes while a branch is queued
  const StepScalars* scalars = nullptr;  ///< in device memory, written by begin_pass: kernels read it when they run
  Library* library = nullptr;
  SlotCopies* slots = nullptr;
  StartedExchanges* exchanges = nullptr;
  GroupLinks* links = nullptr;  ///< null: there is one rank
  bool tf32 = false;
  bool deterministic = true;
  RankSums sums{};
  std::int64_t matrix_alignment = 16;  ///< of the operands of linear ops, which may begin within a tensor
};

/// One maker for each line of TRAINER_OPS, defined in <op family>_ops.cpp: a line without one does not link.
#define TRAINER_OP(name, attributes) std::unique_ptr<Kernel> make_##name##_kernel(const Op& op, CudaContext& context);
TRAINER_OPS(TRAINER_OP)
#undef TRAINER_OP

/// The maker of op.kind.
std::unique_ptr<Kernel> make_kernel_of(const Op& op, CudaContext& context);

/// What workspace depends on besides the op.
struct WorkspaceModel {
  ConvolutionPlanner* convolutions = nullptr;
  bool tf32 = false;
  MatmulPlanner* matmuls = nullptr;        ///< null: matmul_workspace_bytes
  std::int64_t matrix_alignment = 16;      ///< as in CudaContext
  AttentionPlanner* attentions = nullptr;  ///< null: own kernels serve
  bool deterministic = true;
  bool sums_in_order = false;  ///< RankSums::in_order
};

/// The scratch of some kinds of ops: of those that OpDefinition::takes_scratch, and no others. Stands beside its
/// formula, in files without launches, so that plans need no kernels.
struct ScratchRule {
  std::span<const OpKind> kinds;
  std::int64_t (*num_bytes)(const Op& op, const WorkspaceModel& model);
};
extern const ScratchRule linear_scratch, linear_cross_entropy_scratch, conv2d_scratch, batchnorm2d_scratch,
    layernorm_scratch, groupnorm_scratch, attention_scratch, prelu_scratch, cross_entropy_scratch, numeric_loss_scratch,
    dice_scratch, class_part_scratch, gradient_factor_scratch, communication_scratch;

/// DeviceModel::workspace_bytes.
std::int64_t compute_workspace_bytes(const Op& op, const WorkspaceModel& model);

/// DeviceModel::convolution_statistics. cuDNN has them for f16 and input channels in multiples of 8 alone, and a batch
/// norm of one launch reads its input again from the cache.
bool conv2d_statistics_pay(const Op& op, const WorkspaceModel& model);

/// Of the first row of a chunk of a linear_cross_entropy's x and dx; all else starts where an allocation or scratch
/// does.
std::int64_t alignment_of_chunks(const Op& op);

/// A kernel that is one function of addresses.
template <std::invocable<const OperandAddresses&> Function>
std::unique_ptr<Kernel> make_kernel(Function function) {
  class FunctionKernel final : public Kernel {
   public:
    explicit FunctionKernel(Function f) : function_(std::move(f)) {}
    void run(const OperandAddresses& addresses) override { function_(addresses); }

   private:
    Function function_;
  };
  return std::make_unique<FunctionKernel>(std::move(function));
}

template <typename T = void>
const T* input(const OperandAddresses& addresses, int position) {
  return static_cast<const T*>(addresses.inputs[static_cast<std::size_t>(position)]);
}
/// An input that the op modifies.
template <typename T = void>
T* modified_input(const OperandAddresses& addresses, int position) {
  return static_cast<T*>(addresses.inputs[static_cast<std::size_t>(position)]);
}
template <typename T = void>
T* output(const OperandAddresses& addresses, int position) {
  return static_cast<T*>(addresses.outputs[static_cast<std::size_t>(position)]);
}

}  // namespace trainer::cuda
