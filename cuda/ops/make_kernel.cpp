#include "cuda/ops/kernels.h"

namespace trainer::cuda {

std::unique_ptr<Kernel> make_kernel_of(const Op& op, CudaContext& context) {
  switch (op.kind) {
#define TRAINER_OP(name, attributes) \
  case OpKind::name:                 \
    return make_##name##_kernel(op, context);
    TRAINER_OPS(TRAINER_OP)
#undef TRAINER_OP
  }
  throw InternalError("internal error: an op of no known kind");
}

}  // namespace trainer::cuda
