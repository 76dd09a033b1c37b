#include "cuda/ops/unfused_matmul.h"

#include <utility>

#include "cuda/kernels/matmul_epilogue.h"

namespace trainer::cuda {

namespace {

class UnfusedMatmul final : public Matmul {
 public:
  UnfusedMatmul(const MatmulCall& call, std::unique_ptr<Matmul> product) : call_(call), product_(std::move(product)) {}

  void run(const MatmulOperands& operands, Stream stream) override {
    product_->run({.a = operands.a, .b = operands.b, .c = operands.c, .workspace = operands.workspace}, stream);
    matmul_epilogue(call_, operands, stream);
  }
  bool is_fused() const override { return false; }

 private:
  MatmulCall call_;
  std::unique_ptr<Matmul> product_;
};

}  // namespace

MatmulCall without_epilogue(const MatmulCall& call) {
  MatmulCall product = call;
  product.epilogue = Epilogue::none;
  return product;
}

std::unique_ptr<Matmul> make_unfused_matmul(const MatmulCall& call, std::unique_ptr<Matmul> product) {
  return std::make_unique<UnfusedMatmul>(call, std::move(product));
}

}  // namespace trainer::cuda
