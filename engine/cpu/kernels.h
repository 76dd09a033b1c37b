#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <utility>

#include "engine/cpu/cpu_context.h"
#include "engine/device/device.h"

namespace trainer {

/// A kernel of the CPU, which reads the scalars of the running pass where it is called.
class CpuKernel {
 public:
  virtual ~CpuKernel() = default;
  virtual void run(const OperandAddresses& addresses, const StepScalars& scalars) = 0;
};

/// One maker for each line of TRAINER_OPS, defined in <op family>_kernel.cpp: a line without one does not link.
#define TRAINER_OP(name, attributes) std::unique_ptr<CpuKernel> make_##name##_kernel(const Op& op, CpuContext& context);
TRAINER_OPS(TRAINER_OP)
#undef TRAINER_OP

/// The maker of op.kind, or where operands are f16 or bf16 what runs that op's f32 kernel: Note [16-bit operands] in
/// engine/cpu/slicing.h.
std::unique_ptr<CpuKernel> make_kernel_of(const Op& op, CpuContext& context);

/// DeviceModel::workspace_bytes, computed anew on every call (microseconds, some 100 where oneDNN is asked).
std::int64_t compute_workspace_bytes(const Op& op, CpuContext& context);

// The families that need workspace. Each counts for forward and backward alike.
std::int64_t linear_workspace_bytes(const Op& op, CpuContext& context);
std::int64_t linear_cross_entropy_workspace_bytes(const Op& op, CpuContext& context);
std::int64_t conv2d_workspace_bytes(const Op& op, CpuContext& context);
std::int64_t batchnorm2d_workspace_bytes(const Op& op, const CpuContext& context);
std::int64_t layernorm_workspace_bytes(const Op& op, const CpuContext& context);
std::int64_t loss_workspace_bytes(const Op& op);
std::int64_t gradient_factor_workspace_bytes(const Op& op);

/// A kernel that is one function of addresses and scalars.
template <std::invocable<const OperandAddresses&, const StepScalars&> Function>
std::unique_ptr<CpuKernel> make_kernel(Function function) {
  class FunctionKernel final : public CpuKernel {
   public:
    explicit FunctionKernel(Function f) : function_(std::move(f)) {}
    void run(const OperandAddresses& addresses, const StepScalars& scalars) override { function_(addresses, scalars); }

   private:
    Function function_;
  };
  return std::make_unique<FunctionKernel>(std::move(function));
}

/// Operand `position` as elements of T.
template <typename T = float>
const T* input(const OperandAddresses& addresses, int position) {
  return static_cast<const T*>(addresses.inputs[static_cast<std::size_t>(position)]);
}
/// An input that the op modifies.
template <typename T = float>
T* modified_input(const OperandAddresses& addresses, int position) {
  return static_cast<T*>(addresses.inputs[static_cast<std::size_t>(position)]);
}
template <typename T = float>
T* output(const OperandAddresses& addresses, int position) {
  return static_cast<T*>(addresses.outputs[static_cast<std::size_t>(position)]);
}

}  // namespace trainer
