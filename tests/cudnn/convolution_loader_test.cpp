#include "cuda/library/convolution_loader.h"

#include <catch2/catch.hpp>

#include "engine/errors.h"

namespace trainer::cuda {

namespace {

class NamedConvolution final : public Convolution {
 public:
  explicit NamedConvolution(std::string name) : made_by(std::move(name)) {}
  void run(const ConvolutionOperands&, Stream) override {}
  const std::string made_by;
};

const CudnnPlan written_plan{"eng28_k2=4", 4096, {1, 2, 3}};
const ConvolutionCall loaded_call{.x = {1, 4, 4, 8}, .y = {1, 4, 4, 8}};

std::unique_ptr<Convolution> refuse(const CudnnPlan&, const ConvolutionCall&) {
  throw DeviceError("cuDNN could not load the plan of a convolution: CUDNN_STATUS_NOT_SUPPORTED");
}

std::string made_by(const std::unique_ptr<Convolution>& convolution) {
  return dynamic_cast<const NamedConvolution&>(*convolution).made_by;
}

}  // namespace

TEST_CASE("a plan that can be loaded is, and nothing is told") {
  ConvolutionLoader loader([](const auto&, const auto&) { return std::make_unique<NamedConvolution>("loaded"); },
                           refuse);
  CHECK(made_by(loader.load(written_plan, loaded_call)) == "loaded");
  CHECK(loader.note().empty());
}

TEST_CASE("a plan that cannot be loaded is made anew on the device, in its scratch, and that is told with the reason") {
  int num_planned = 0;
  ConvolutionLoader loader(refuse, [&](const CudnnPlan& planned, const ConvolutionCall& call) {
    ++num_planned;
    CHECK(planned.engine == written_plan.engine);
    CHECK(planned.workspace_bytes == written_plan.workspace_bytes);
    CHECK(call == loaded_call);
    return std::make_unique<NamedConvolution>("planned here");
  });
  CHECK(made_by(loader.load(written_plan, loaded_call)) == "planned here");
  const std::string note = loader.note();
  CHECK_THAT(note, Catch::Contains("planned anew") && Catch::Contains("CUDNN_STATUS_NOT_SUPPORTED"));
  loader.load(written_plan, loaded_call);
  CHECK(num_planned == 2);
  CHECK(loader.note() == note);
}

TEST_CASE("where neither way leads to a convolution both reasons are told") {
  ConvolutionLoader loader(refuse, [](const CudnnPlan&, const ConvolutionCall&) -> std::unique_ptr<Convolution> {
    throw DeviceError("no engine within the scratch");
  });
  CHECK_THROWS_AS(loader.load(written_plan, loaded_call), DeviceError);
  CHECK_THROWS_WITH(loader.load(written_plan, loaded_call),
                    Catch::Contains("CUDNN_STATUS_NOT_SUPPORTED") && Catch::Contains("no engine within"));
  CHECK(loader.note().empty());
}

TEST_CASE("an error that is not the device's is not taken for a plan that cannot be loaded") {
  ConvolutionLoader loader(
      [](const CudnnPlan&, const ConvolutionCall&) -> std::unique_ptr<Convolution> {
        throw InternalError("a mistake");
      },
      [](const auto&, const auto&) { return std::make_unique<NamedConvolution>("planned here"); });
  CHECK_THROWS_AS(loader.load(written_plan, loaded_call), InternalError);
}

}  // namespace trainer::cuda
