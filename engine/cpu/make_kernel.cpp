#include "engine/cpu/kernels.h"
#include "engine/cpu/sliced_kernel.h"

namespace trainer {

std::unique_ptr<CpuKernel> make_kernel_of(const Op& op, CpuContext& context) {
  if (runs_in_slices(op)) return make_sliced_kernel(op, context);
  switch (op.kind) {
#define TRAINER_OP(name, attributes) \
  case OpKind::name:                 \
    return make_##name##_kernel(op, context);
    TRAINER_OPS(TRAINER_OP)
#undef TRAINER_OP
  }
  throw InternalError("internal error: an op of no known kind");
}

}  // namespace trainer
