#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/axis_cut.h"
#include "engine/graph/graph.h"

namespace trainer {

using BufferId = std::int32_t;

/// A tensor of which each rank holds a part: Note [Parts of tensors] in engine/ops/rank_parts.h.
struct TensorPart {
  TensorType whole;                    ///< u8: an 8-bit moment
  std::int64_t num_elements = 0;       ///< of the parameter
  bool is_cut = true;                  ///< ranks that share a batch have parts of it; else each of them has all of it
  std::vector<std::int32_t> stages{};  ///< of the pipeline, whose ranks alone have any of it; empty: all
  std::optional<AxisCut> axis{};       ///< how ranks that share a layer cut it, before what is_cut says; nothing: not
};

/// A named, sized piece of device memory.
struct Buffer {
  std::string name;  ///< "<layer path>.<role>": "3.output", "fc.weight.grad", "fc.weight.momentum"
  LayerId layer = no_layer;
  Category category = Category::activation;
  TensorType type;  ///< u8 for workspace
  std::int64_t num_bytes = 0;
  /// Where it lies in another buffer, which is allocated in its place; -1: nowhere.
  BufferId view_of = -1;
  std::int64_t view_offset = 0;      ///< bytes
  std::optional<TensorPart> part{};  ///< what `type` is a part of, maybe an empty one, which is never allocated
};

/// One op over buffers.
struct OpCall {
  Op op;
  std::vector<BufferId> inputs, outputs;
  BufferId workspace = -1;
  LayerId layer = no_layer;
  Phase phase = Phase::forward;
};

struct Instruction {
  enum class Kind : std::uint8_t { allocate, run, release } kind = Kind::run;
  std::int32_t index = 0;  ///< a buffer, or a call
  LayerId layer = no_layer;
  Phase phase = Phase::forward;
};

/// A straight list of instructions.
struct Routine {
  std::string name;             ///< "load", "train", "train, accumulating", "update", "evaluate"
  std::int64_t batch_size = 0;  ///< 0: none
  std::vector<Instruction> instructions;
  /// Where the host's data goes, after their allocate and before the first run: Note [Fields of a batch] in
  /// engine/graph/data_description.h; -1: it takes nothing of a field. Empty: it takes no data.
  std::vector<BufferId> fields;
  std::size_t num_inputs = 0;  ///< of the fields, the first of them: what the model reads
};

/// What the optimizer keeps for one parameter, by parameter.
struct OptimizerBuffers {
  BufferId first = -1;   ///< momentum, first moment
  BufferId second = -1;  ///< second moment
};

/// What writes a text: engine/program/generation.h.
struct TextRoutines {
  std::int64_t length = 0;     ///< tokens of the text
  Routine prompt, token;       ///< a piece of a prompt (no instructions where none is read in pieces), and one token
  std::vector<BufferId> kept;  ///< keys and values of each attention in turn, then the logits
  BufferId logits() const { return kept.back(); }
};

/// What predicts: engine/program/prediction.h.
struct PredictionRoutines {
  /// Of one batch size.
  struct Batch {
    std::int64_t batch_size = 0;
    Routine predict;           ///< leaves the prediction live
    Routine release;           ///< of the prediction, once it has been read
    BufferId prediction = -1;  ///< what holds it; its type may be another of as many numbers
    TensorType type;           ///< of the prediction: (batch_size, …)
  };
  std::vector<Batch> batches;  ///< the whole one, then the odd last one, where there is one
};

/// Where each buffer lies in the one segment of the planned allocator; see engine/program/placement.h.
struct Placement {
  std::vector<std::int64_t> offsets;  ///< by buffer, bytes from the start of the segment
  std::int64_t segment_bytes = 0;
};

/// What adds up the parts of batches in one order: Note [Sums of parts] in part_sums.h.
struct PartSums {
  bool is_on = false;
  std::int64_t num_own = 1;              ///< parts of a batch that this rank takes
  bool alternates = false;               ///< the next part is the next rank's
  BufferId statistics = -1;              ///< the loss's, of each of them; -1: batches are not cut
  std::vector<Routine> keep_statistics;  ///< by part
  BufferId counts = -1;                  ///< Program::metric_counts of each of them, where these are sums of f64
  std::vector<Routine> keep_counts;      ///< by part
  std::vector<Routine> merges;           ///< of gradients: those of depth i + 1 to those of depth i
  // Of experiments that accumulate.
  Routine merge_further;         ///< depth 1 to what the first part of a further micro-batch left
  Routine add_further;           ///< a further micro-batch to the first one
  bool sums_over_ranks = false;  ///< behind each micro-batch, and not in the update:
  Routine sum_first, sum_further;
};

/// The steps of a pipeline: Note [Segments] in pipeline/pipeline_steps.h.
struct PipelineSteps {
  /// A routine of a step, of a micro-batch (part of a batch) of it.
  struct Entry {
    std::int32_t routine = 0, pass = 0;
  };
  /// Of all steps of as many micro-batches, of which the last is of the odd batch or not.
  struct Step {
    std::int64_t num_batches = 0;
    bool last_is_odd = false;
    std::vector<Entry> entries;
  };
  std::vector<Routine> routines;
  std::vector<Step> steps;
  std::vector<std::pair<LayerId, LayerId>> layers;  ///< of the model that this rank has: first and last of each chunk
};

/// Shared by training, prediction and diagnosis: the only list of what is held when.
/// Persistent buffers (parameters, optimizer state, loss statistics, staging) are allocated by `load` and never
/// released. Gradients are allocated by the first micro-batch of a step and released by `update`.
struct Program {
  std::vector<Layer> layers;
  std::vector<Parameter> parameters;
  std::vector<Buffer> buffers;
  std::vector<OpCall> calls;
  std::vector<BufferId> parameter_buffers;          ///< by parameter
  std::vector<BufferId> copy_buffers;               ///< by parameter: its 16-bit copy; -1: none
  std::vector<OptimizerBuffers> optimizer_buffers;  ///< by parameter
  /// By parameter: its average, see Note [Averages of weights] in weight_averages.h; -1: none. Of a program that does
  /// not train: empty.
  std::vector<BufferId> average_buffers;
  std::vector<LossPart> loss_parts;            ///< as Graph::loss_parts
  std::vector<FrozenNetwork> frozen_networks;  ///< as Graph::frozen_networks
  RankLayout ranks;
  /// By parameter: the stages of the pipeline that hold it (Note [Pipelines] in pipeline/stage_graph.h); empty: there
  /// is no pipeline.
  std::vector<std::vector<std::int32_t>> parameter_stages;
  std::vector<std::optional<AxisCut>> parameter_cuts;  ///< as Graph::parameter_cuts
  std::vector<bool> gradient_terms;                    ///< as Graph::gradient_terms
  BufferId loss_statistics = -1;
  BufferId metric_counts = -1;  ///< what evaluations count in beside the loss; -1: nothing
  BufferId loss_scale = -1;     ///< Note [Loss scale] in engine/ops/loss_scale.h; -1: the loss is not scaled
  /// Where the next batch is copied to while a step runs, by field, of the largest batch size; empty where the device
  /// copies when it needs the batch.
  std::vector<BufferId> staged_fields;

  Routine load;
  /// Writes the copies anew, after parameters were written from outside; no instructions where there are none.
  Routine refresh;
  /// Of averages, where there are some: copies the parameters to them, under an average_share of 1; fills the 16-bit
  /// copies from them.
  Routine start_averages, lend_averages;
  /// For each size of a pass: the whole micro-batch first, then the odd last one; with parallel.deterministic those of
  /// parts, the largest first.
  struct MicroBatch {
    std::int64_t batch_size = 0;
    Routine first;                ///< starts the gradients
    Routine next;                 ///< adds to them; empty where the experiment never accumulates
    std::vector<Routine> others;  ///< of parts behind the first, by depth − 1: Note [Sums of parts] in part_sums.h
  };
  std::vector<MicroBatch> micro_batches;  ///< of a pipeline: none
  std::optional<PipelineSteps> pipeline;
  PartSums part_sums;
  Routine update;
  /// For each size of an evaluated batch, or part of one.
  std::vector<Routine> evaluations;
  /// Of a run of several ranks (rank_sums.h): rank 0's running statistics for all, in front of an evaluation and a
  /// checkpoint; what evaluations found, summed, behind one. No instructions where there is one rank.
  Routine share_statistics, agree_evaluation;
  /// Of a program that evaluates alone (evaluation_program.h), by evaluation: what the loss has read of the model, the
  /// logits of the batch that was evaluated last; empty: they are not kept.
  std::vector<BufferId> kept_predictions;
  std::optional<TextRoutines> generation;  ///< of a program that writes texts, which has no other routine but `load`

  std::optional<PredictionRoutines> prediction;  ///< of a program that predicts, likewise

  std::optional<Placement> placement;  ///< for memory.allocator: planned

  /// Whether this rank holds a parameter, or its part of it.
  bool holds(std::size_t parameter) const {
    if (!parameter_cuts.empty() && parameter_cuts[parameter] && parameter_cuts[parameter]->sections.empty() &&
        ranks.tensor_place() > 0)
      return false;
    if (parameter_stages.empty()) return true;
    const std::vector<std::int32_t>& stages = parameter_stages[parameter];
    return std::find(stages.begin(), stages.end(), ranks.stage()) != stages.end();
  }
  /// What holds a parameter of the model as it is evaluated: the average, where there is one.
  BufferId model_buffer(std::size_t parameter) const {
    const BufferId average = average_buffers.empty() ? -1 : average_buffers[parameter];
    return average >= 0 ? average : parameter_buffers[parameter];
  }
  /// "fc1 (linear)", or "optimizer" for no layer.
  std::string layer_label(LayerId layer) const;
};

/// Whether ranks that share a batch have parts of what it holds.
inline bool is_cut(const Buffer& buffer) { return buffer.part && buffer.part->is_cut; }

/// The tensor that a buffer holds, or holds a part of.
inline const TensorType& whole_type(const Buffer& buffer) { return buffer.part ? buffer.part->whole : buffer.type; }

/// By buffer of the list.
std::vector<TensorType> types_of(const Program& program, std::span<const BufferId> buffers);

/// Whether ranks share what one of them would hold: then their routines communicate.
bool has_parts(const Program& program);

/// By buffer, 1 for those that `load` allocates and does not release.
std::vector<char> persistent_buffers(const Program& program);

}  // namespace trainer
