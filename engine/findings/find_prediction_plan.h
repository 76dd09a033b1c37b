#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/config/experiment.h"
#include "engine/findings/device_source.h"
#include "engine/graph/data_description.h"
#include "engine/plan/capacity.h"
#include "engine/plan/memory_plan.h"
#include "engine/plan/process_memory.h"

namespace trainer {

/// What `trainer plan --predict` and `trainer predict` are asked for.
struct PredictionPlanRequest {
  Experiment experiment;
  DataDescription data;                    ///< what the model takes, of read_trained_model
  std::string path;                        ///< of the model, as findings name it
  std::vector<std::string> overrides;      ///< it was read with
  std::optional<std::int64_t> batch_size;  ///< nothing: the largest that fits, up to usual_most_batch()
  std::optional<std::int64_t> num_inputs;  ///< where that is known
  std::string gpu, capacity;               ///< as --gpu and --capacity take them; empty: not given
};

/// What predicting takes, as data.
struct PredictionPlanFindings {
  std::string experiment_name, path;
  std::vector<std::string> overrides;
  std::string device_kind, device_name, profile;  ///< profile: the file that describes the device, if it is one
  Capacity capacity;
  std::int64_t batch_size = 1;      ///< of a whole batch: as asked for, no more than there are inputs, or found
  std::int64_t odd_batch_size = 0;  ///< of the last one, where it is another
  bool is_found = false;            ///< the batch is the largest that fits, or `most_tried`
  std::int64_t most_tried = 0;
  std::int64_t window_length = 0;  ///< of texts: the tokens of an input; else 0
  std::int64_t num_parameters = 0, parameter_bytes = 0;
  MemoryPlan plan;                      ///< under the capacity
  std::optional<MemoryPlan> unbounded;  ///< where it does not fit
  /// Where it does not fit: a batch below it that does, the largest that was found; 0: not one input does.
  std::optional<std::int64_t> fitting_batch;
  ProcessMemory process;
  std::vector<NamedBytes> outside_allocator;
  std::vector<std::string> notes;

  const MemoryPlan& shown() const { return unbounded ? *unbounded : plan; }
};

/// A batch beyond it takes memory and makes nothing faster: 32 inputs for a CPU (ResNet-50: as many images a second as
/// 64 at once), 256 for a GPU; of texts as many windows as hold 1,024 tokens or 16,384, and one in any case, since a
/// token is a row of each product, and has logits of a whole vocabulary. `data`: what the model takes.
std::int64_t usual_most_batch(const DeviceModel& device, const DataDescription& data);
inline constexpr std::int64_t most_asked_batch = std::int64_t{1} << 20;

/// Of `num_inputs` inputs, those of the last batch where they are fewer than `batch_size`; 0: they are not, or it is
/// not known.
std::int64_t odd_batch_of(std::optional<std::int64_t> num_inputs, std::int64_t batch_size);

/// Plans for the device that is here. Throws ConfigError, of a model of tokens also what require_next_token_model
/// (engine/graph/generation_graph.h) throws; DeviceError.
PredictionPlanFindings find_prediction_plan(const PredictionPlanRequest& request, const DeviceModel& device,
                                            const Capacity& capacity);
/// The same for the one that the request names.
PredictionPlanFindings find_prediction_plan(const PredictionPlanRequest& request, const DeviceSource& devices);

}  // namespace trainer
