#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/config/batch_size.h"
#include "engine/config/layer_spec.h"
#include "engine/config/text_pair.h"
#include "engine/config/transform_spec.h"
#include "engine/rank_layout.h"

namespace trainer {

struct CachedSegments;  // engine/memory/cached_segments.h

/// The resolved configuration: plain values, every default filled in. Keys in comments are the YAML's.

enum class DeviceType : std::uint8_t { automatic, cpu, cuda };
struct DeviceConfig {
  DeviceType type = DeviceType::automatic;  ///< device.type: auto | cpu | cuda | cuda:N
  int index = 0;
  bool is_numbered = false;  ///< whether device.type says which; else ranks take one each
  int threads = 0;           ///< device.threads; 0: as many as the process may use
  SourceLocation threads_location = {};
  bool tf32 = false;          ///< device.tf32: products of f32 operands may round them to 10 bits of mantissa (CUDA)
  bool autotune = false;      ///< device.autotune: time the kernels of a convolution and keep the fastest (CUDA)
  bool deterministic = true;  ///< device.deterministic: the same bits in every run (CUDA; the CPU's always are)
  bool cuda_graph = true;     ///< device.cuda_graph: replay steps that repeat themselves as one launch (CUDA)
  bool branches = true;       ///< device.branches: in such a launch, weights' gradients beside what follows them (CUDA)
};

/// memory.allocator. What `automatic` (`auto`) stands for settle_experiment (engine/plan) decides: caching where the
/// run fits with it, or with neither, planned where it fits with that alone.
enum class AllocatorKind : std::uint8_t { automatic, caching, planned };
/// memory.on_oom: what a run does that runs out of memory.
enum class OnOutOfMemory : std::uint8_t {
  report,  ///< it ends with a report
  adapt,   ///< it is planned again with the same effective batch for the memory there is, and goes on
};
enum class UpdatePlace : std::uint8_t { at_end, in_backward };
enum class GradientStorage : std::uint8_t { f32, half };
enum class MomentStorage : std::uint8_t { f32, eight_bit };
struct MemoryConfig {
  std::optional<std::int64_t> limit;  ///< memory.limit, bytes; absent: what the device has free
  AllocatorKind allocator = AllocatorKind::automatic;
  /// Set by settle_experiment (engine/plan): places that were found for this batch size under this capacity, for
  /// `planned`; batch size 0: the program's own. See Note [Places of a larger batch] in engine/program/lent_places.h.
  struct LentPlaces {
    std::int64_t batch_size = 0, capacity = 0;
  };
  LentPlaces places = {};
  /// Set where stages are planned or run: what the stage before has left in the allocator, where this one is not to be
  /// purged (StageConfig::purge); of a settled experiment what it begins with. Null: it begins with an empty device.
  std::shared_ptr<const CachedSegments> kept = nullptr;
  /// memory.workspace_limit: a kernel that needs more scratch is not chosen where another serves.
  std::int64_t workspace_limit = std::int64_t{96} << 20;
  /// memory.expandable_segments: segments grow in place instead of being acquired one by one.
  bool expandable_segments = false;
  bool in_place = true;         ///< memory.in_place: outputs take over inputs that nothing reads any more
  bool recompute_cheap = true;  ///< memory.recompute_cheap: norms, activations and dropout are computed again
  /// memory.chunked_loss: rows of the batch whose logits are held at a time; 0: all of them; -1 (`auto`): as many as
  /// make them small, where there are many classes.
  std::int64_t chunked_loss = -1;
  UpdatePlace update = UpdatePlace::at_end;          ///< memory.update: when a gradient is used up and released
  GradientStorage gradients = GradientStorage::f32;  ///< memory.gradients: `16bit` only with train.amp
  MomentStorage moments = MomentStorage::f32;        ///< memory.moments: `8bit` only for adam and adamw
  bool master_weights = true;        ///< memory.master_weights: false keeps bf16 weights alone, rounded stochastically
  std::vector<std::string> offload;  ///< memory.offload: layers whose kept activations wait in host memory
  SourceLocation offload_location = {};
  bool preflight = true;  ///< memory.preflight: refuse to start what the plan shows not to fit
  OnOutOfMemory on_oom = OnOutOfMemory::report;
};

enum class DataType : std::uint8_t {
  digits,
  idx,
  cifar10,
  csv,
  arrays,
  synthetic,
  image_folder,
  image_list,
  segmentation,
  tar,
  tokens,
  text
};
inline constexpr std::int64_t most_workers = 256;
enum class OnBadSample : std::uint8_t { error, skip };
/// Where images are kept behind the transforms that draw nothing and come first.
enum class ImageCaching : std::uint8_t { none, ram, disk };
/// What the values of a mask's pixels stand for: data.mask_classes.
struct MaskClasses {
  struct OfValue {
    std::int64_t value = 0;
    std::int64_t of_class = 0;  ///< −1: the pixel is left out
  };
  std::vector<OfValue> values;     ///< empty: each value is its class
  bool leaves_others_out = false;  ///< `others: ignore`; else other values are mistakes
};
enum class TaskTarget : std::uint8_t { categorical, numeric, multi_label };
/// The axes of an array of images: (N, H, W, C) or (N, C, H, W).
enum class ImageLayout : std::uint8_t { automatic, channels_last, channels_first };
/// What becomes of a cell of a table that holds no value.
enum class MissingRule : std::uint8_t { error, mean, median, mode, category, drop };
enum class ColumnKind : std::uint8_t { number, category };
/// What data.columns says of a column.
struct ColumnConfig {
  std::string name;  ///< the column's name, its number from 0, or a pattern with `*`
  std::optional<ColumnKind> kind = {};
  std::optional<MissingRule> missing = {};
  SourceLocation location = {};
};

struct DataConfig {
  DataType type = DataType::digits;
  std::string root;               ///< folder of idx, cifar10, arrays and image files
  std::string train, validation;  ///< files; idx: of images, where their names are not the usual ones; image_folder:
                                  ///< folders of class folders, likewise; segmentation: folders of images
  std::string train_labels, validation_labels;  ///< idx, arrays: label files, likewise; segmentation: folders of masks
  double split = 0.0;  ///< share of the training samples set aside, instead of validation files found beside them
  bool shuffle = true;
  std::int64_t shuffle_buffer = 0;  ///< samples within which `shuffle` mixes; 0: all of them
  bool drop_last = false;
  // Images
  std::vector<TransformSpec> train_transforms, validation_transforms;  ///< data.transforms: of each sample
  std::vector<TransformSpec> batch_transforms;  ///< the mixup and the cutmix that end data.transforms.train
  std::int64_t workers = 0;                     ///< threads that read samples; 0: as num_workers() in datasets/ says
  std::int64_t memory = 0;  ///< that the dataset, staged batches and these threads may take; 0: what they want
  // image files
  std::int64_t channels = 3;              ///< that images are decoded to: 1, 3 or 4
  std::vector<std::string> class_names;   ///< in the order of their numbers; empty: sorted
  std::int64_t max_pixels = 178'956'970;  ///< images of more are refused; PIL's limit
  OnBadSample on_bad_sample = OnBadSample::error;
  std::string image, image_suffix;  ///< image_list: the column of paths, and what follows each: ".jpg"
  std::string label_separator;      ///< image_list: between several labels in a cell
  std::string mask_suffix;          ///< segmentation: "_mask": the mask of a.jpg is called a_mask.png
  MaskClasses mask_classes;
  ImageCaching cache = ImageCaching::none;
  std::string cache_folder;       ///< of `cache: disk`, and of texts' tokens; empty: where caches are kept
  bool reduced_decoding = false;  ///< JPEGs that become much smaller are decoded at a half, a quarter or an eighth
  std::vector<double> mean, std;  ///< data.normalize: per channel, of pixel/255; one value serves all channels
  // arrays
  std::string train_input, train_target;            ///< data.fields.input, target: names in the file
  std::string validation_input, validation_target;  ///< data.fields.validation_input, validation_target
  ImageLayout layout = ImageLayout::automatic;
  // csv
  std::vector<std::string> target;            ///< column names or 0-based indices; the last column where empty
  std::vector<std::string> include, exclude;  ///< columns that are features, likewise or by patterns; empty: all, none
  std::vector<ColumnConfig> columns;
  std::vector<MissingRule> missing;         ///< of each column the first that suits its kind; empty: error
  std::vector<std::string> missing_values;  ///< texts that are no value, beside the usual ones
  std::int64_t max_categories = 100;        ///< that a column's text may have
  bool standardize = true, standardize_target = false;
  TaskTarget target_type = TaskTarget::categorical;
  bool header = true;
  std::string delimiter = ",";
  // synthetic; for the file formats: declares what the files hold so that `plan` needs no files
  std::vector<std::int64_t> shape;             ///< of one sample, (H, W, C) or (features)
  std::int64_t sequence_length = 256;          ///< tokens, text, and synthetic without a shape: of a sample
  std::string tokenizer = "bytes";             ///< text: that, or a tokenizer's file or folder
  std::optional<std::int64_t> document_token;  ///< of tokens: each begins a document
  std::optional<std::int64_t> pad_token;       ///< tokens and text: a sample is a document, filled up with this one
  std::optional<std::int64_t> mask_token;  ///< tokens and text: some tokens become it and are guessed, as BERT learns
  double mask_share = 0.15;                ///< of those that are guessed
  std::vector<std::int64_t> target_shape;  ///< of its target where that is not one class or a list of numbers
  std::int64_t classes = 0;                ///< 0: from the data; for numeric targets 1 output
  std::int64_t samples = 0;  ///< training samples (after the split), some of those there are; 0: all of them
  std::int64_t validation_samples = 0;
  /// Set by the loss: numeric targets are probabilities (loss: bce_with_logits), and a file that holds others is
  /// refused.
  bool targets_are_probabilities = false;
  /// Set by the loss: loss.ignore_index, which targets may hold beside classes.
  std::int32_t ignored_target = -100;
  SourceLocation location, drop_last_location, memory_location, target_location, include_location,
      exclude_location = {};
};

/// Keys of `weights` whose entries name tensors of a file.
enum class WeightsNames : std::uint8_t { rename, ignore };
/// Where training starts: Note [Weights of a file] in engine/train/files/weights_match.h.
struct WeightsConfig {
  std::string file;                    ///< weights.file: safetensors, an index of shards or a folder; empty: none
  std::vector<TextPair> rename;        ///< weights.rename: Rewrites of the file's names, one after the other
  std::vector<std::string> transpose;  ///< weights.transpose: matrices that the file has with their axes swapped
  std::vector<std::string> ignore;     ///< weights.ignore: of the file
  std::vector<std::string> fresh;      ///< weights.new: of the model
  std::vector<WeightsNames> optional;  ///< weights.optional: those whose entries may name nothing
  bool strict = true;                  ///< weights.strict: what neither side has is named in `ignore` or `fresh`
  SourceLocation rename_location, transpose_location, ignore_location, fresh_location = {};
};

/// An entry of model.maps: Note [Maps of names] in engine/config/model/model_expansion.h.
struct NameMap {
  std::string name;
  std::vector<TextPair> rename;                ///< as weights.rename
  std::vector<std::string> transpose, ignore;  ///< as those of weights
  std::optional<std::vector<TextPair>> save;   ///< Rewrites of the model's names; nothing: `rename` backwards
  std::vector<std::string> three_axes;         ///< the model's, which the files have with axes of length 1 in front
  SourceLocation location = {};
};

enum class LossType : std::uint8_t { cross_entropy, mse, l1, smooth_l1, bce_with_logits, dice, feature };
constexpr bool takes_classes(LossType type) { return type == LossType::cross_entropy || type == LossType::dice; }
constexpr bool takes_numbers(LossType type) { return type != LossType::cross_entropy; }
enum class FeatureDistance : std::uint8_t { l1, mse };
/// Of `feature`: Note [Frozen networks] in engine/graph/frozen_network.h.
struct FeatureConfig {
  std::vector<LayerSpec> network;     ///< network.layers
  WeightsConfig weights;              ///< network.weights; `strict` is only about what the file alone has
  std::vector<std::string> layers;    ///< whose outputs are compared, by their paths in the network
  std::vector<double> layer_weights;  ///< empty: 1 each
  FeatureDistance distance = FeatureDistance::l1;
  std::vector<double> mean, std;  ///< of each channel of the images: the network reads (x − mean) / std; empty: x
  SourceLocation layers_location = {}, mean_location = {};

  FeatureConfig() { weights.strict = false; }
  double layer_weight(std::size_t layer) const { return layer_weights.empty() ? 1.0 : layer_weights[layer]; }
};
/// The loss, or a term of it.
struct LossConfig {
  LossType type = LossType::cross_entropy;
  double label_smoothing = 0.0;
  std::vector<double> class_weights;  ///< empty: 1 each
  double beta = 1.0;                  ///< of smooth_l1: where squares become lines
  std::int32_t ignore_index = -100;   ///< of classes: such a target is left out of means, accuracies and gradients
  double smooth = 1e-5;               ///< of dice: added to either side of each class's quotient
  double weight = 1.0;                ///< of a term of a sum
  FeatureConfig feature;
  SourceLocation location = {}, class_weights_location = {};

  /// Means over numbers of their own that it adds up: one, or one for each layer that it compares.
  std::size_t num_parts() const { return type == LossType::feature ? feature.layers.size() : 1; }
};

/// An entry of model.groups: parameters under a name, from the input to the output.
struct LayerGroup {
  std::string name;
  std::vector<std::string> layers;  ///< as `freeze` names them; empty: `rest`, what no other group names
  SourceLocation location = {};
};

/// freeze_norms: what norms of frozen layers do.
enum class FrozenNorms : std::uint8_t {
  train,       ///< they train on
  parameters,  ///< weights stay; batch norms go by their batches and move their running statistics
  whole,       ///< batch norms go by their running statistics, which stay as well
};
/// Note [Frozen parameters] in engine/graph/trained_layers.h.
struct FreezeConfig {
  std::vector<std::string> entries;  ///< freeze
  FrozenNorms norms = FrozenNorms::parameters;
  SourceLocation location = {};
  std::vector<SourceLocation> entry_locations = {};  ///< of each entry, of a stage's `unfreeze` too
  friend bool operator==(const FreezeConfig& left, const FreezeConfig& right) {
    return left.entries == right.entries && left.norms == right.norms;
  }
};

/// A number of each of model.groups.
struct GroupNumbers {
  double number = 0;                                     ///< the highest; of all, where the other two are empty
  std::vector<double> slice{};                           ///< of the first and the last group, or of the last alone
  std::vector<std::pair<std::string, double>> groups{};  ///< by name, each of them
  SourceLocation location = {};

  bool is_same_for_all() const { return slice.empty() && groups.empty(); }
  friend bool operator==(const GroupNumbers& left, const GroupNumbers& right) {
    return left.number == right.number && left.slice == right.slice && left.groups == right.groups;
  }
};

enum class OptimizerType : std::uint8_t { sgd, adam, adamw };
struct OptimizerConfig {
  OptimizerType type = OptimizerType::sgd;
  GroupNumbers lr = {.number = 0.01};
  double momentum = 0.0;
  bool nesterov = false;
  GroupNumbers weight_decay = {};
  double beta1 = 0.9, beta2 = 0.999;  ///< optimizer.betas
  double eps = 1e-8;
  bool decay_norms_and_biases = false;  ///< weight decay also for norms and biases (PyTorch's default; ours is not)
  /// Set by a run of several stages: by parameter, the updates that were made before its state began.
  std::map<std::string, std::int64_t> updates_before = {};
};

enum class ScheduleType : std::uint8_t { constant, step, cosine, one_cycle };
struct ScheduleConfig {
  ScheduleType type = ScheduleType::constant;
  std::int64_t warmup_steps = 0;  ///< a linear rise before any of the types but one_cycle
  SourceLocation warmup_location = {};
  std::int64_t step_size = 0;  ///< step: optimizer steps between decays; `schedule.every`, in steps or "Nep"
  bool step_size_in_epochs = false;
  double gamma = 0.1;                                ///< step: factor at each decay
  double final_factor = 0.0;                         ///< cosine: lr at the end / lr
  double warmup_fraction = 0.25;                     ///< one_cycle: share of the run until the highest lr
  double start_divisor = 25.0, final_divisor = 1e5;  ///< one_cycle
  std::vector<double> momentum;  ///< one_cycle: lowest and highest momentum, or first beta; empty: the optimizer's
};

/// Averages of the weights: Note [Averages of weights] in engine/program/weight_averages.h.
enum class AverageType : std::uint8_t { off, ema, swa };
struct AverageConfig {
  AverageType type = AverageType::off;
  double decay = 0.999;    ///< of ema: average = decay · average + (1 − decay) · weight
  std::int64_t after = 0;  ///< steps, or epochs, before the first that counts
  bool after_in_epochs = false;
  std::int64_t every = 1;  ///< steps, or epochs, from one that counts to the next
  bool every_in_epochs = false;
};

/// Mixed precision: products and stored activations in 16 bit.
enum class Amp : std::uint8_t { off, fp16, bf16 };
/// train.loss_scale, for fp16: Note [Loss scale] in engine/ops/loss_scale.h.
struct LossScaleConfig {
  double initial = 65536, growth = 2, backoff = 0.5;
  std::int64_t interval = 2000;
};
/// train.checkpointing: what the backward pass computes again instead of finding it kept.
struct CheckpointingConfig {
  enum class Type : std::uint8_t {
    off,
    every,      ///< {every: n}: the outputs of every n-th layer are kept
    layers,     ///< {layers: [patterns]}: what these layers make is not kept
    sqrt,       ///< the outputs of every √n-th of n layers are kept
    budget,     ///< {budget: size}: the fastest way whose step holds at most that much
    automatic,  ///< `auto`: the budget is what the capacity leaves
  } type = Type::off;
  std::int64_t every = 0;
  std::vector<std::string> layers;  ///< a layer's path or kind; `*` stands for anything; all that lies under it counts
  std::int64_t budget = 0;          ///< bytes; of `auto`: set by settle_experiment (engine/plan), 0: none
  SourceLocation location = {};
};

struct EarlyStoppingConfig {
  std::int64_t patience = 0;  ///< evaluations without improvement; 0: off
  double min_delta = 0.0;
  SourceLocation location = {};
};
enum class ConfusionMatrixUse : std::uint8_t { automatic, on, off };
struct TrainConfig {
  BatchSize batch_size = 32;
  std::int64_t epochs = 1;
  std::optional<std::int64_t> steps;  ///< ends the run earlier or later than epochs; 0 evaluates and saves the weights
  std::int64_t accumulation_steps = 1;
  Amp amp = Amp::off;
  LossScaleConfig loss_scale;
  CheckpointingConfig checkpointing;
  double clip_norm = 0.0;            ///< train.clip_norm: largest global L2 norm of the gradient; 0: off
  std::int64_t eval_batch_size = 0;  ///< 0: batch_size
  std::int64_t eval_every = 0;       ///< steps between evaluations; 0: at the end of each epoch
  /// train.confusion_matrix: whether evaluations count which class is taken for which; `automatic`: of classes of
  /// pixels, or where checkpoint.best follows from it.
  ConfusionMatrixUse confusion_matrix = ConfusionMatrixUse::automatic;
  SourceLocation confusion_matrix_location = {};
  EarlyStoppingConfig early_stopping;
  std::int64_t log_every = 0;  ///< steps between lines on a terminal or in a log; 0: a sensible number
};

/// What evaluations judge a model by: the lowest loss or mae, the highest of the others.
enum class Metric : std::uint8_t { loss, accuracy, top5, mean_iou, dice, mae, r2 };
struct CheckpointConfig {
  std::int64_t every = 0;  ///< steps, or epochs with every_in_epochs ("1ep"); 0: only at the end
  bool every_in_epochs = false;
  std::int64_t keep = 3;  ///< newest checkpoints kept; the best one is kept beside them
  bool sharded = false;   ///< each rank writes files of its own: Note [Sharded checkpoints]
  Metric best = Metric::loss;
  SourceLocation best_location = {};
};

/// Where a run is told beside events.jsonl while it goes on: engine/report/logging/. Rank 0 does.
struct LoggingConfig {
  bool tensorboard = false;           ///< event files in the output folder
  std::int64_t histograms_every = 0;  ///< steps, or epochs, between histograms of the weights there; 0: none
  bool histograms_in_epochs = false;
  std::string prometheus_file;        ///< rewritten while the run goes on; empty: none
  std::int64_t prometheus_port = -1;  ///< of 127.0.0.1; 0: a free one; -1: none
  std::string mlflow;                 ///< folder of MLflow's file store; empty: none
};

inline constexpr std::int64_t most_ranks = 1 << 16;
inline constexpr std::int64_t most_prefetched = 64;
/// What of a model ranks hold a part of each, instead of all of it (Rajbhandari et al., "ZeRO", SC'20).
enum class Shard : std::uint8_t {
  none,
  optimizer,   ///< the optimizer's state, masters and averages of weights
  gradients,   ///< these, and gradients
  parameters,  ///< these, and weights
};

/// What carries bytes between ranks; `automatic`: MPI where mpirun has started them and its library is found, else TCP.
enum class Transport : std::uint8_t { automatic, tcp, mpi };

/// In which order the stages of a pipeline take micro-batches: engine/program/pipeline/schedules.h.
enum class PipelineOrder : std::uint8_t { gpipe, one_forward_one_backward, interleaved, zero_bubble };

/// Processes that train together: Note [Ranks] in engine/program/rank_sums.h.
struct ParallelConfig {
  std::int64_t data = 1;      ///< ranks that share each batch
  std::int64_t pipeline = 1;  ///< ranks that share the list of layers: Note [Pipelines] in engine/program/pipeline/
  std::int64_t tensor = 1;    ///< ranks that share each layer
  PipelineOrder schedule = PipelineOrder::one_forward_one_backward;
  std::int64_t micro_batches = 0;  ///< that a rank's part of a batch is cut into; 0: 4 for each stage
  std::int64_t chunks = 2;         ///< parts of the list of layers that each rank has with `interleaved`
  std::vector<std::string> cut;    ///< layers at which the parts behind the first begin; empty: where times are alike
  SourceLocation cut_location = {};
  Shard shard = Shard::none;
  bool deterministic = false;       ///< the same bits on any number of ranks that divides `parts`
  std::int64_t parts = 8;           ///< of a batch, where it is deterministic; a power of two
  bool overlap = true;              ///< ranks tell each other what they can beside what they compute
  std::int64_t prefetch = 1;        ///< gathers of weights that are then on their way ahead of their use
  std::int64_t bucket_size = 0;     ///< most bytes of gradients that are then added up at a time; 0: by `shard`
  bool sync_batchnorm = false;      ///< batch norms go by the batch of all ranks, not by each one's part
  std::int64_t ranks_per_node = 0;  ///< of a plan; 0: 8 GPUs, on CPUs all of them
  std::int64_t timeout = 60;        ///< seconds
  Transport transport = Transport::automatic;
  // Set by what starts or plans a rank.
  std::int64_t rank = 0;        ///< which of them this is
  std::int64_t num_local = 0;   ///< those on this machine; 0: nothing has started them
  std::int64_t local_rank = 0;  ///< which of these it is
};

inline RankLayout rank_layout(const ParallelConfig& parallel) {
  return {
      .num_data = parallel.data, .num_stages = parallel.pipeline, .num_tensor = parallel.tensor, .rank = parallel.rank};
}
/// All that train together.
inline std::int64_t total_ranks(const ParallelConfig& parallel) { return rank_layout(parallel).num_ranks(); }

/// Micro-batches that a rank's part of a batch is cut into, of which the last may be empty.
inline std::int64_t num_micro_batches(const ParallelConfig& parallel) {
  if (parallel.micro_batches > 0) return parallel.micro_batches;
  return parallel.pipeline > 1 ? 4 * parallel.pipeline : 1;
}
/// Whether steps are those of a pipeline, maybe of a single stage.
inline bool is_pipelined(const ParallelConfig& parallel) {
  return parallel.pipeline > 1 || num_micro_batches(parallel) > 1;
}
/// Parts of the list of layers that a rank has.
inline std::int64_t chunks_of_rank(const ParallelConfig& parallel) {
  return parallel.pipeline > 1 && parallel.schedule == PipelineOrder::interleaved ? parallel.chunks : 1;
}

/// Those that share this machine's memory and processors.
inline std::int64_t ranks_here(const ParallelConfig& parallel) {
  if (parallel.num_local > 0) return parallel.num_local;
  const std::int64_t all = total_ranks(parallel);
  return parallel.ranks_per_node > 0 ? std::min(parallel.ranks_per_node, all) : all;
}

/// In how many the threads of a machine are divided. Sums of a convolution's gradient depend on how many threads make
/// them: where they are to be the same on any number of ranks, each has as many as with a rank for each part.
inline std::int64_t shares_of_threads(const ParallelConfig& parallel) {
  return parallel.deterministic ? parallel.parts : ranks_here(parallel);
}

/// A parameter of a model's file, or of a block, whose value is an integer.
struct IntegerParameter {
  std::string key;  ///< "model.with.width", "model.blocks.unit.parameters.width"
  std::int64_t value = 0;
  std::vector<std::int64_t> one_of;  ///< the values it may have; empty: any
};

/// What an experiment was read from.
struct ExperimentSource {
  std::shared_ptr<const std::string> text;  ///< not null; stages share it
  std::string file_name;
  std::vector<std::string> overrides;
  std::optional<std::size_t> stage = {};  ///< that it is, in `stages`
};

struct Experiment;
/// What becomes of the optimizer's state at the beginning of a stage.
enum class StateCarry : std::uint8_t {
  unless_frozen_otherwise,  ///< it is kept, but by a stage that freezes or unfreezes: as fastai does
  keep,
  clear,
};
/// An entry of `stages`: Note [Stages] in engine/config/stages.h.
struct StageConfig {
  std::string name;
  std::shared_ptr<const Experiment> experiment;  ///< as the stage trains; one without stages
  StateCarry state = StateCarry::unless_frozen_otherwise;
  std::vector<std::string> cleared_groups;  ///< of a state that is kept else
  bool freezes_otherwise = false;           ///< it says what is frozen
  bool purge = true;                        ///< false: it begins with what the stage before has cached
  SourceLocation location = {};
};

/// An entry of `stages` that predicts, by the parameters that the last one has left.
struct PredictConfig {
  std::string name;
  std::vector<std::string> inputs;  ///< files and folders, as trainer predict takes them
  std::string output, masks;        ///< the file of rows; of classes of pixels the folder of masks
  std::int64_t top = 0;             ///< likeliest classes that are told; 0: all probabilities
  bool lines = false;               ///< each line of a text is an input of its own
  SourceLocation location = {};
};

struct Experiment {
  std::string name;
  std::uint64_t seed = 0;
  DeviceConfig device;
  MemoryConfig memory;
  DataConfig data;
  std::vector<LayerSpec> layers;                  ///< model.layers
  Initialization init = Initialization::pytorch;  ///< model.init
  std::vector<NameMap> maps;                      ///< model.maps
  std::vector<LayerGroup> groups;                 ///< model.groups
  FreezeConfig freeze;
  WeightsConfig weights;
  std::vector<LossConfig> losses = {LossConfig{}};  ///< loss: one, or the terms of a sum
  SourceLocation loss_location = {};
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  AverageConfig average;
  TrainConfig train;
  CheckpointConfig checkpoint;
  LoggingConfig logging;
  ParallelConfig parallel;
  std::string output;                           ///< output; runs/${name} by default
  std::vector<StageConfig> stages;              ///< what is trained one after the other; empty: this alone
  std::vector<PredictConfig> predictions;       ///< behind all that train
  std::string stage;                            ///< of what stands in `stages`: its name; else empty
  std::shared_ptr<const Experiment> kept_from;  ///< the stage whose cache it begins with; null: it is purged before
  std::string override_prefix;  ///< of what stands in `stages`: "stages.2.", before keys that override it
  /// Keys whose values expressions compute with: what another value of such a key changes is not known.
  std::set<std::string, std::less<>> computed_from;
  /// Of the model that `layers` were written out from, with the values that they were.
  std::vector<IntegerParameter> model_parameters;
  std::shared_ptr<const ExperimentSource> source;  ///< for read_again(); none of one that was not read
  std::string config_path;    ///< the file the experiment was read from; relative data paths are tried from the
                              ///< working directory
  std::string resolved_json;  ///< every key with its value, as `config show --json` prints and events carry
};

/// The threads that a rank computes with on a CPU, where its process may use so many.
inline int device_threads(const Experiment& experiment, int usable_threads) {
  if (experiment.device.threads > 0) return static_cast<int>(experiment.device.threads);
  return static_cast<int>(std::max<std::int64_t>(usable_threads / shares_of_threads(experiment.parallel), 1));
}

}  // namespace trainer
