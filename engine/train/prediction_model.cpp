#include "engine/train/prediction_model.h"

#include "engine/graph/tensor_pieces.h"
#include "engine/plan/allocator_options.h"
#include "engine/plan/make_allocator.h"
#include "engine/plan/process_memory.h"
#include "engine/train/files/weights_loading.h"
#include "engine/train/parameter_copy.h"

namespace trainer {

PredictionModel::PredictionModel(const Program& program, const Experiment& experiment, Device& device,
                                 std::int64_t capacity)
    : source_(device.make_memory_source(capacity)),
      allocator_(make_allocator(program, *source_, allocator_options(experiment))),
      executor_(program, device, *allocator_,
                {.replays = experiment.device.cuda_graph, .branches = experiment.device.branches}),
      predictor_(executor_) {}

void PredictionModel::load(const WeightsMatch& match, const WeightFiles& files) {
  require_internal(match.count(WeightsStatus::fresh) == 0, "predictions are made with weights that a file has");
  executor_.begin_step(0);
  executor_.run(executor_.program().load, {});
  PieceMemory memory(largest_saved_piece(executor_.program()));
  load_weights(match, files, executor_, memory);
  executor_.device().synchronize();
}

void PredictionModel::load(Executor& trained) {
  executor_.begin_step(0);
  executor_.run(executor_.program().load, {});
  copy_parameters(trained, executor_);
}

}  // namespace trainer
