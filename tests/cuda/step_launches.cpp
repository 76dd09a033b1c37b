#include "tests/cuda/step_launches.h"

#include <memory>
#include <vector>

#include "cuda/launch/counted_launches.h"
#include "cuda/ops/cublaslt_call.h"
#include "cuda/ops/kernels.h"
#include "cuda/ops/unfused_matmul.h"
#include "engine/errors.h"
#include "engine/plan/step_routines.h"
#include "tests/cuda/host_convolution.h"

namespace trainer::cuda {
namespace {

/// Counts what would be run; cuBLASLt fuses what its documentation says.
class CountedLibrary final : public Library {
 public:
  std::unique_ptr<Matmul> prepare(const MatmulCall& call) override {
    auto product = std::make_unique<CountedProduct>(num_calls_);
    if (call.epilogue == Epilogue::none || cublaslt_supports(call)) return product;
    return make_unfused_matmul(call, std::move(product));
  }
  std::unique_ptr<Convolution> prepare(const ConvolutionCall&) override {
    return std::make_unique<CountedConvolution>(num_calls_);
  }
  ConvolutionPlanner& convolution_planner() override { return planner_; }
  std::int64_t num_calls() const { return num_calls_; }

 private:
  class CountedProduct final : public Matmul {
   public:
    explicit CountedProduct(std::int64_t& num_calls) : num_calls_(num_calls) {}
    void run(const MatmulOperands&, Stream) override { ++num_calls_; }

   private:
    std::int64_t& num_calls_;
  };
  class CountedConvolution final : public Convolution {
   public:
    explicit CountedConvolution(std::int64_t& num_calls) : num_calls_(num_calls) {}
    void run(const ConvolutionOperands&, Stream) override { ++num_calls_; }

   private:
    std::int64_t& num_calls_;
  };

  HostConvolutionPlanner planner_;
  std::int64_t num_calls_ = 0;
};

OpLaunches count_launches(const Op& op, bool tf32) {
  require_internal(op.kind != OpKind::offload && op.kind != OpKind::fetch, "copies to the host are no launches");
  CountedLibrary library;
  StepScalars scalars;
  CudaContext context;
  context.scalars = &scalars;
  context.library = &library;
  context.tf32 = tf32;
  const std::unique_ptr<Kernel> kernel = make_kernel_of(op, context);
  // Operands of any address that is aligned as the allocator's are: nothing is read there.
  alignas(512) static std::array<std::byte, 512> anything;
  const std::vector<void*> inputs(op.inputs.size(), anything.data()), outputs(op.outputs.size(), anything.data());
  const host::CountedLaunches launches;
  kernel->run({inputs, outputs, anything.data()});
  return {.kernels = static_cast<double>(launches.num_launches()),
          .library_calls = static_cast<double>(library.num_calls())};
}

}  // namespace

std::array<OpLaunches, num_op_kinds> count_step_launches(const Program& program, const RunSchedule& schedule,
                                                         bool tf32) {
  std::array<OpLaunches, num_op_kinds> by_kind{};
  for_each_first_step_routine(program, schedule, [&](const Routine& routine, double times) {
    if (times <= 0) return;
    for (const Instruction& instruction : routine.instructions) {
      if (instruction.kind != Instruction::Kind::run) continue;
      const Op& op = program.calls[static_cast<std::size_t>(instruction.index)].op;
      const OpLaunches launches = count_launches(op, tf32);
      OpLaunches& counted = by_kind[static_cast<std::size_t>(op.kind)];
      counted.kernels += times * launches.kernels;
      counted.library_calls += times * launches.library_calls;
    }
  });
  return by_kind;
}

}  // namespace trainer::cuda
