#include "cuda/ops/kernels.h"
#include "engine/errors.h"

namespace trainer::cuda {

namespace {

[[noreturn]] void refuse_ranks() {
  throw DeviceError("ranks of GPUs do not reach one another yet; set device: cpu, or parallel.data: 1");
}

}  // namespace

std::unique_ptr<Kernel> make_all_reduce_kernel(const Op& op, CudaContext&) {
  if (attributes_of<AllReduceAttributes>(op).num_ranks > 1) refuse_ranks();
  return make_kernel([](const OperandAddresses&) {});  // of one rank the sum is what it has
}

std::unique_ptr<Kernel> make_broadcast_kernel(const Op& op, CudaContext&) {
  if (attributes_of<BroadcastAttributes>(op).num_ranks > 1) refuse_ranks();
  return make_kernel([](const OperandAddresses&) {});
}

}  // namespace trainer::cuda
