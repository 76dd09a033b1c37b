#include "cuda/ops/unfused_matmul.h"

#include <utility>

#include "cuda/kernels/matmul_epilogue.h"

namespace trainer::cuda {

namespace {

class UnfusedMatmul final : public Matmul {
 public:
  UnfusedMatmul(const MatmulCall& call, std::unique_ptr<Matmul> product, bool takes_workspace)
      : call_(call), product_workspace_(takes_workspace), product_(std::move(product)) {}

  void run(const MatmulOperands& operands, Stream stream) override {
    void* const workspace = product_workspace_ ? operands.workspace : nullptr;
    product_->run({.a = operands.a, .b = operands.b, .c = operands.c, .workspace = workspace}, stream);
    matmul_epilogue(call_, operands, stream);
  }
  bool is_fused() const override { return false; }

 private:
  MatmulCall call_;
  bool product_workspace_;
  std::unique_ptr<Matmul> product_;
};

}  // namespace

MatmulCall without_epilogue(const MatmulCall& call) {
  MatmulCall product = call;
  product.epilogue = Epilogue::none;
  return product;
}

std::unique_ptr<Matmul> make_unfused_matmul(const MatmulCall& call, std::unique_ptr<Matmul> product,
                                            bool takes_workspace) {
  return std::make_unique<UnfusedMatmul>(call, std::move(product), takes_workspace);
}

std::unique_ptr<Matmul> make_unfused_matmul(const MatmulCall& call, std::unique_ptr<Matmul> product) {
  return make_unfused_matmul(call, std::move(product), matmul_workspace_bytes(without_epilogue(call)) > 0);
}

}  // namespace trainer::cuda
