#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <utility>

#include "engine/cpu/cpu_context.h"
#include "engine/cpu/slicing.h"
#include "engine/device/device.h"

namespace trainer {

/// A kernel of the CPU, which reads the scalars of the running pass where it is called.
class CpuKernel {
 public:
  virtual ~CpuKernel() = default;
  virtual void run(const OperandAddresses& addresses, const StepScalars& scalars) = 0;
};

/// How the CPU runs one kind of op.
struct CpuOp {
  std::unique_ptr<CpuKernel> (*make)(const Op& op, CpuContext& context);
  CutRule cut;
  /// Scratch of that kernel: microseconds, some 100 where oneDNN is asked. Of ops that OpDefinition::takes_scratch.
  std::int64_t (*workspace_bytes)(const Op& op, CpuContext& context) = nullptr;
};

/// One for each line of TRAINER_OPS, beside its kernel in <op family>_kernel.cpp: a line without one does not link.
#define TRAINER_OP(name, attributes) extern const CpuOp name##_on_cpu;
TRAINER_OPS(TRAINER_OP)
#undef TRAINER_OP

/// How an op is cut whose operands are f16 or bf16 and whose kernel does not take them; nothing for others.
std::optional<Cut> cut_of(const Op& op);

/// The kernel of op.kind, or what runs it in slices.
std::unique_ptr<CpuKernel> make_kernel_of(const Op& op, CpuContext& context);

/// DeviceModel::workspace_bytes, computed anew on every call.
std::int64_t compute_workspace_bytes(const Op& op, CpuContext& context);

/// CpuOp::workspace_bytes of ops that need scratch on other devices alone.
inline std::int64_t no_workspace(const Op&, CpuContext&) { return 0; }

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
