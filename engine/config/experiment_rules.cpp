#include "engine/config/experiment_rules.h"

#include <algorithm>
#include <bit>
#include <initializer_list>

#include <fmt/format.h>

#include "engine/config/feature_rules.h"
#include "engine/config/fields/enum_choices.h"
#include "engine/config/layer_reader.h"
#include "engine/config/loss_terms.h"
#include "engine/config/text/utf8_text.h"

namespace trainer {
namespace {

// A file's name has at most 255 bytes, a path 4095. What is named for a run has a place and an ending beside the name,
// what lies below its folder is a checkpoint's file.
constexpr std::size_t longest_name = 200, longest_folder = 255, longest_output = 3840;

class Rules {
 public:
  Rules(const Experiment& experiment, const ExperimentKeys& given, SourceSet& sources)
      : experiment_(experiment), given_(given), sources_(sources) {}

  void check() {
    check_names();
    check_model();
    check_data_sources();
    check_validation();
    check_normalization();
    check_cache();
    check_csv();
    check_weights();
    check_loss();
    check_optimizer_and_schedule();
    check_train();
    check_memory();
    check_logging();
    check_parallel();
  }

 private:
  /// Reports at the first key unless one of the keys is broken.
  void refuse(std::initializer_list<std::string_view> keys, std::string message, std::string expectation = "") {
    for (const std::string_view key : keys) {
      if (given_.broken.contains(key)) return;
    }
    sources_.report(given_.mark(*keys.begin()), std::move(message), std::move(expectation));
  }

  void check_names() {
    if (experiment_.name.empty()) refuse({"name"}, "'name' is empty", "what the run is called");
    if (experiment_.name.find('/') != std::string::npos || experiment_.name == "." || experiment_.name == "..") {
      refuse({"name"}, fmt::format("the name '{}' cannot name a folder", shortened(experiment_.name)),
             "a name without '/'");
    }
    const bool is_long = experiment_.name.size() > longest_name;
    if (is_long) {
      refuse({"name"},
             fmt::format("'name' has {} bytes, and names the run's folder and files", experiment_.name.size()),
             fmt::format("at most {} bytes", longest_name));
    }
    if (experiment_.output.empty()) refuse({"output"}, "'output' is empty", "a folder, such as runs/${name}");
    if (!is_long) check_output();
  }

  void check_output() {
    const std::string& output = experiment_.output;
    if (output.size() > longest_output) {
      refuse({"output"}, fmt::format("'output' has {} bytes, and the run's files lie below it", output.size()),
             fmt::format("at most {} bytes", longest_output));
      return;
    }
    for (std::size_t begin = 0; begin < output.size();) {
      const std::size_t end = std::min(output.find('/', begin), output.size());
      if (end - begin > longest_folder) {
        refuse({"output"}, fmt::format("'output' has a folder whose name has {} bytes", end - begin),
               fmt::format("at most {} bytes between two '/'", longest_folder));
        return;
      }
      begin = end + 1;
    }
  }

  void check_logging() {
    const LoggingConfig& logging = experiment_.logging;
    if (logging.histograms_every > 0 && !logging.tensorboard)
      refuse({"logging.histograms_every", "logging.tensorboard"},
             "'logging.histograms_every' is of TensorBoard's files", "logging.tensorboard: true beside it");
  }

  void check_model() {
    constexpr std::string_view example = "at least one layer, such as model: {layers: [flatten, linear: {out: 10}]}";
    const std::vector<LayerSpec>& layers = experiment_.layers;
    if (!given_.has("model.layers")) {
      refuse({"model.layers"}, "'model.layers' is missing", std::string(example));
    } else if (layers.empty() && !sources_.has_mistakes()) {
      refuse({"model.layers"}, "'model.layers' is empty", std::string(example));
    }
    // A single layer that is too many was reported where it stands.
    const bool has_one_too_many = std::any_of(layers.begin(), layers.end(), [](const LayerSpec& layer) {
      return num_expanded_layers({&layer, 1}) > most_layers;
    });
    if (!has_one_too_many && num_expanded_layers(layers) > most_layers) {
      refuse({"model.layers"}, fmt::format("more than {} layers once every repeat is written out", most_layers));
    }
  }

  void check_data_sources() {
    const DataConfig& data = experiment_.data;
    if (data.type == DataType::csv && data.train.empty()) need("data.train", "a CSV file");
    if (data.type == DataType::cifar10 && data.root.empty()) need("data.root", "the folder of data_batch_1.bin");
    if (data.type == DataType::idx) {
      if (data.root.empty() && data.train.empty()) need("data.root", "the folder of train-images-idx3-ubyte");
      check_labels("data.train_labels", data.train_labels, "data.train", data.train);
      check_labels("data.validation_labels", data.validation_labels, "data.validation", data.validation);
    }
    if (data.type == DataType::arrays) {
      if (data.train.empty()) need("data.train", "a .npy, .npz or safetensors file");
      check_labels("data.validation_labels", data.validation_labels, "data.validation", data.validation);
    }
    if (data.type == DataType::tar && data.train.empty())
      need("data.train", "the shards, such as shards/train-{0000..0009}.tar");
    if (data.type == DataType::tokens && data.train.empty())
      need("data.train", "a .bin of tokens, which trainer tokenizer encode writes");
    if (data.type == DataType::text && data.train.empty()) need("data.train", "a text");
    if (data.pad_token && !data.document_token)
      refuse({"data.pad_token"}, "'data.pad_token' fills up documents", "'data.document_token', which begins each");
    if (data.document_token && data.type == DataType::synthetic && !given_.has("data.sequence_length"))
      refuse({"data.document_token"}, "'data.document_token' is of samples of tokens", "data.sequence_length");
    if (data.mask_token && (data.mask_token == data.document_token || data.mask_token == data.pad_token))
      refuse({"data.mask_token"}, "'data.mask_token' begins documents or fills them up", "a token that does neither");
    if (given_.has("data.mask_share") && !data.mask_token)
      refuse({"data.mask_share"}, "'data.mask_share' is of 'data.mask_token'", "a token that stands for those guessed");
    if (data.type == DataType::image_list && data.train.empty())
      need("data.train", "a table or JSON Lines of paths and labels");
    if (data.target_type == TaskTarget::multi_label && data.type != DataType::image_list) {
      refuse({"data.target_type"}, "several labels for a sample come with data.type image_list",
             "categorical, or numeric with a number for each");
    }
    if (data.type == DataType::segmentation) {
      if (data.root.empty() && data.train.empty())
        need("data.root", "the folder of images and masks, or of train and val folders of them");
      check_labels("data.train_labels", data.train_labels, "data.train", data.train);
      check_labels("data.validation_labels", data.validation_labels, "data.validation", data.validation);
      check_masks("data.train", data.train, "data.train_labels", data.train_labels);
      check_masks("data.validation", data.validation, "data.validation_labels", data.validation_labels);
    }
    if (data.channels == 2) refuse({"data.channels"}, "images are not decoded to 2 channels", "1, 3 or 4");
    if (data.type == DataType::synthetic) {
      const bool is_numeric = data.target_type == TaskTarget::numeric;
      const bool are_tokens = given_.has("data.sequence_length");
      if (data.shape.empty() && !are_tokens)
        need("data.shape", "the shape of one sample, such as [28, 28, 1], or data.sequence_length of tokens");
      if (!data.shape.empty() && are_tokens)
        refuse({"data.sequence_length", "data.shape"},
               "'data.shape' and 'data.sequence_length' are of different samples", "one of the two");
      if (are_tokens && (is_numeric || !data.target_shape.empty()))
        refuse({is_numeric ? "data.target_type" : "data.target_shape", "data.sequence_length"},
               "the target of each token is the next one, a class", "data.shape in place of data.sequence_length");
      if (data.classes == 0 && !is_numeric) need("data.classes", "how many classes");
      if (data.samples == 0) need("data.samples", "how many training samples");
    }
    if (data.shape.size() > 3 || data.shape.size() == 2) {
      refuse({"data.shape"}, fmt::format("'data.shape' has {} dimensions", data.shape.size()),
             "[height, width, channels] or [features]");
    }
    if (data.target_shape.size() > 3) {
      refuse({"data.target_shape"}, fmt::format("'data.target_shape' has {} dimensions", data.target_shape.size()),
             "[height, width] of classes, or [height, width, channels] of numbers");
    }
    if (data.target_type == TaskTarget::numeric && !data.target_shape.empty() && data.classes > 0) {
      refuse({"data.target_shape", "data.classes", "data.target_type"},
             "'data.target_shape' and 'data.classes' both say how many numbers a target has", "one of the two");
    }
    double num_elements = 1.0;
    for (const std::int64_t dimension : data.shape) num_elements *= static_cast<double>(dimension);
    if (num_elements > 1e12) refuse({"data.shape"}, "one sample of 'data.shape' has more than 10^12 elements");
  }

  void need(std::string_view key, std::string_view what) {
    refuse({key, "data.type"}, fmt::format("'{}' is missing", key), std::string(what));
  }

  /// Labels without a name are found beside their images.
  void check_labels(std::string_view labels_key, const std::string& labels, std::string_view images_key,
                    const std::string& images) {
    if (labels.empty() || !images.empty()) return;
    refuse({labels_key, images_key}, fmt::format("'{}' needs '{}'", labels_key, images_key), "both files");
  }

  /// Masks are in a folder that is named, or have a name of their own in that of the images.
  void check_masks(std::string_view images_key, const std::string& images, std::string_view masks_key,
                   const std::string& masks) {
    if (images.empty() || !masks.empty() || !experiment_.data.mask_suffix.empty()) return;
    refuse({images_key}, fmt::format("'{}' needs '{}'", images_key, masks_key),
           "the folder of masks, or data.mask_suffix where they are in that of the images");
  }

  void check_validation() {
    const DataConfig& data = experiment_.data;
    if (data.split > 0 && !data.validation.empty()) {
      refuse({"data.split", "data.validation"}, "'data.split' and 'data.validation' both say what validates",
             "one of them");
    }
    for (const auto& [key, name] : {std::pair{"data.fields.validation_input", &data.validation_input},
                                    {"data.fields.validation_target", &data.validation_target}}) {
      if (data.split > 0 && !name->empty())
        refuse({key, "data.split"}, fmt::format("'data.split' and '{}' both say what validates", key), "one of them");
    }
    if (data.validation.empty() && data.validation_input.empty() != data.validation_target.empty()) {
      const char* const given =
          data.validation_input.empty() ? "data.fields.validation_target" : "data.fields.validation_input";
      refuse({given}, fmt::format("'{}' names half of what validates", given),
             "both data.fields.validation_input and data.fields.validation_target, or data.validation");
    }
    if (data.split > 0 && data.type == DataType::synthetic && data.validation_samples > 0) {
      refuse({"data.split", "data.validation_samples"},
             "'data.split' and 'data.validation_samples' both say what validates", "one of them");
    }
  }

  void check_cache() {
    const DataConfig& data = experiment_.data;
    if (data.cache != ImageCaching::none && data.reduced_decoding)
      refuse({"data.reduced_decoding", "data.cache"},
             "'data.cache' keeps what is decoded once, 'data.reduced_decoding' decodes what a crop needs",
             "one of both");
    if (data.type != DataType::text && data.cache != ImageCaching::disk && !data.cache_folder.empty())
      refuse({"data.cache_folder"}, "'data.cache_folder' is of 'data.cache: disk'", "data.cache: disk");
  }

  void check_normalization() {
    const DataConfig& data = experiment_.data;
    if (data.mean.empty() != data.std.empty()) {
      const std::string_view present = data.mean.empty() ? "data.normalize.std" : "data.normalize.mean";
      const std::string_view absent = data.mean.empty() ? "data.normalize.mean" : "data.normalize.std";
      refuse({present, absent}, fmt::format("'{}' needs '{}'", present, absent), "both");
      return;
    }
    if (data.mean.size() > 1 && data.std.size() > 1 && data.mean.size() != data.std.size()) {
      refuse({"data.normalize.std", "data.normalize.mean"},
             fmt::format("{} means, but {} standard deviations", data.mean.size(), data.std.size()), "as many of both");
    }
    const std::size_t num_channels = known_channels();
    const std::size_t num_values = std::max(data.mean.size(), data.std.size());
    if (num_channels != 0 && num_values > 1 && num_values != num_channels) {
      refuse({"data.normalize.mean", "data.shape", "data.type"},
             fmt::format("{} values for {} channel{}", num_values, num_channels, num_channels == 1 ? "" : "s"),
             num_channels == 1 ? "1 value" : fmt::format("1 or {} values", num_channels));
    }
  }

  std::size_t known_channels() const {
    const DataConfig& data = experiment_.data;
    if (data.type == DataType::cifar10) return 3;
    if (data.type == DataType::digits) return 1;
    return data.shape.size() == 3 ? static_cast<std::size_t>(data.shape[2]) : 0;
  }

  void check_csv() {
    const DataConfig& data = experiment_.data;
    if (data.type != DataType::csv) return;
    if (data.delimiter.size() != 1 || data.delimiter == "\n" || data.delimiter == "\"") {
      refuse({"data.delimiter"}, "'data.delimiter' is not one character", "',', ';', \"\\t\" or another");
    }
    check_columns();
  }

  void check_columns() {
    const DataConfig& data = experiment_.data;
    const auto is_number = [](const std::string& text) {
      return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
    };
    for (const std::string& target : data.target) {
      if (data.header || is_number(target)) continue;
      refuse({"data.target", "data.header"},
             fmt::format("without a header no column is called '{}'", shortened(target)),
             "the column's number, from 0");
      break;
    }
    const bool is_numeric = data.target_type == TaskTarget::numeric;
    if (data.target.size() > 1 && !is_numeric) {
      refuse({"data.target", "data.target_type"},
             fmt::format("{} targets of classes: a loss takes one class for a sample", data.target.size()),
             "one target; or data.target_type: numeric, with loss: bce_with_logits where they are 0 or 1");
    }
    if (data.target.size() > 1 && data.classes > 0 && data.classes != static_cast<std::int64_t>(data.target.size())) {
      refuse({"data.classes", "data.target"},
             fmt::format("{} numbers in a target of {} columns", data.classes, data.target.size()),
             fmt::format("{}, or nothing", data.target.size()));
    }
    if (!data.standardize_target) return;
    if (!is_numeric) {
      refuse({"data.standardize_target", "data.target_type"}, "classes cannot be standardised",
             "data.target_type: numeric, or data.standardize_target: false");
    } else if (data.targets_are_probabilities) {
      refuse({"data.standardize_target", "loss"}, "bce_with_logits takes probabilities, which stay as they are",
             "data.standardize_target: false, or another loss");
    }
  }

  void check_weights() {
    if (given_.has("weights.file") && experiment_.weights.file.empty())
      refuse({"weights.file"}, "'weights.file' is empty", "a safetensors file, or null for none");
    if (given_.has("weights.file")) return;
    for (const std::string_view key :
         {"weights.rename", "weights.transpose", "weights.ignore", "weights.new", "weights.strict"}) {
      if (given_.has(key))
        refuse({key}, fmt::format("'{}' says what to do with a file, and none is named", key),
               "weights.file: FILE beside it, or run --weights FILE");
    }
  }

  void check_loss() {
    std::size_t num_parts = 0;
    for (const LossConfig& loss : experiment_.losses) {
      check_loss(loss);
      if (loss.type == LossType::feature && !given_.has("loss.terms"))
        check_feature(loss.feature, given_, "loss.", sources_);
      num_parts += loss.num_parts();
    }
    if (num_parts > most_loss_terms)
      refuse({"loss"}, fmt::format("a loss of {} terms, each layer that is compared being one", num_parts),
             fmt::format("at most {}", most_loss_terms));
    check_terms();
    check_best();
  }

  void check_loss(const LossConfig& loss) {
    const DataConfig& data = experiment_.data;
    const auto num_weights = static_cast<std::int64_t>(loss.class_weights.size());
    if (num_weights > 0 && data.classes > 0 && num_weights != data.classes) {
      refuse({"loss.class_weights", "data.classes"},
             fmt::format("{} weights for {} classes", num_weights, data.classes),
             fmt::format("{} weights", data.classes));
    }
    if (num_weights > 0 &&
        std::all_of(loss.class_weights.begin(), loss.class_weights.end(), [](double w) { return w == 0; })) {
      refuse({"loss.class_weights"}, "all class weights are 0", "at least one above 0");
    }
    if (!takes_numbers(loss.type) && data.target_type != TaskTarget::categorical) {
      refuse({given_.has("loss.type") ? "loss.type" : "data.target_type", "data.target_type", "data.type"},
             data.target_type == TaskTarget::multi_label
                 ? "cross_entropy takes one class for a sample, and these have several"
                 : "cross_entropy needs classes, but the target is numeric",
             data.target_type == TaskTarget::multi_label ? "loss: bce_with_logits"
                                                         : "loss: mse, or data.target_type: categorical");
    }
  }

  /// What the terms of a sum need of each other.
  void check_terms() {
    for (const auto& [key, mark] : given_.marks) {
      if (!given_.has("loss.terms") || !key.starts_with("loss.") || key == "loss.terms") continue;
      refuse({key, "loss.terms"}, fmt::format("'{}' is for one loss, and 'loss.terms' are several", key),
             "one of the two");
      return;
    }
    const LossConfig* first = nullptr;
    bool weighs = false;
    for (const LossConfig& loss : experiment_.losses) {
      weighs = weighs || loss.weight > 0;
      if (!takes_classes(loss.type)) continue;
      if (first != nullptr && first->ignore_index != loss.ignore_index) {
        refuse({"loss"},
               fmt::format("the terms of the loss ignore {} and {}: what a sample's target is must not depend on the "
                           "term",
                           first->ignore_index, loss.ignore_index),
               "the same ignore_index for each");
        return;
      }
      first = &loss;
    }
    if (!weighs) refuse({"loss"}, "all terms of the loss have a weight of 0", "at least one above 0");
  }

  /// Whether evaluations can tell what checkpoints are judged by, as far as it does not depend on the data.
  void check_best() {
    const Metric best = experiment_.checkpoint.best;
    bool guesses = false, ranks = false, predicts = false;
    for (const LossConfig& loss : experiment_.losses) {
      guesses = guesses || takes_classes(loss.type) || loss.type == LossType::bce_with_logits;
      ranks = ranks || loss.type == LossType::cross_entropy;
      predicts = predicts || !(takes_classes(loss.type) || loss.type == LossType::bce_with_logits);
    }
    const bool is_told = best == Metric::loss || (best == Metric::top5                        ? ranks
                                                  : best == Metric::mae || best == Metric::r2 ? predicts && !guesses
                                                                                              : guesses);
    if (is_told) return;
    const std::string& loss = loss_choices().name_of(experiment_.losses.front().type);
    refuse({"checkpoint.best", "loss.type"},
           fmt::format("{} has no {} to judge checkpoints by", experiment_.losses.size() > 1 ? "this loss" : loss,
                       metric_choices().name_of(best)),
           guesses ? "loss, accuracy, mean_iou or dice" : "loss, mae or r2");
  }

  void check_optimizer_and_schedule() {
    const OptimizerConfig& optimizer = experiment_.optimizer;
    const ScheduleConfig& schedule = experiment_.schedule;
    if (optimizer.nesterov && optimizer.momentum == 0.0) {
      refuse({"optimizer.nesterov", "optimizer.momentum", "optimizer.type"}, "'optimizer.nesterov' needs momentum",
             "optimizer.momentum above 0, such as 0.9");
    }
    if (!schedule.momentum.empty() && schedule.momentum.front() > schedule.momentum.back())
      refuse({"schedule.momentum"}, "'schedule.momentum' is the lowest and the highest", "[0.85, 0.95], say");
    if (!schedule.momentum.empty() && optimizer.type == OptimizerType::sgd && optimizer.momentum == 0.0)
      refuse({"schedule.momentum", "optimizer.momentum", "optimizer.type"}, "'schedule.momentum' needs momentum",
             "optimizer.momentum above 0, such as 0.95");
    if (schedule.type == ScheduleType::step && schedule.step_size == 0) {
      refuse({"schedule.every", "schedule.type"}, "the step schedule needs 'schedule.every'",
             "steps or epochs between decays, such as 1000 or 10ep");
    }
    if (given_.names_warmup && schedule.warmup_steps == 0) {
      refuse({"schedule.warmup_steps"}, "the warmup schedule needs 'schedule.warmup_steps'",
             "steps above 0, such as 500");
    }
  }

  void check_train() {
    const TrainConfig& train = experiment_.train;
    if (train.batch_size == BatchSize::Word::all && train.accumulation_steps > 1) {
      refuse({"train.accumulation_steps", "train.batch_size"}, "a batch of all samples leaves nothing to accumulate",
             "1, or a smaller train.batch_size");
    }
    if (train.early_stopping.min_delta > 0 && train.early_stopping.patience == 0) {
      refuse({"train.early_stopping.min_delta", "train.early_stopping.patience"},
             "'train.early_stopping.min_delta' needs 'train.early_stopping.patience'", "patience above 0");
    }
  }

  void check_memory() {
    const MemoryConfig& memory = experiment_.memory;
    if (memory.allocator == AllocatorKind::planned && memory.expandable_segments) {
      refuse(
          {"memory.expandable_segments", "memory.allocator"},
          "'memory.expandable_segments' is not for 'memory.allocator: planned': a planned segment has its final size "
          "from the start and never grows",
          "false, or memory.allocator: caching");
    }
    check_update_place();
    check_storage();
  }

  void check_update_place() {
    if (experiment_.memory.update != UpdatePlace::in_backward) return;
    const TrainConfig& train = experiment_.train;
    if (train.clip_norm > 0) {
      refuse({"memory.update", "train.clip_norm"},
             "an update in the backward pass cannot follow 'train.clip_norm', whose norm needs every gradient first",
             "train.clip_norm: 0, or memory.update: at_end");
    }
    if (train.accumulation_steps > 1) {
      refuse({"memory.update", "train.accumulation_steps"},
             "an update in the backward pass cannot wait for 'train.accumulation_steps', which sums gradients over "
             "several batches first",
             "train.accumulation_steps: 1, or memory.update: at_end");
    }
    if (train.amp == Amp::fp16) {
      refuse(
          {"memory.update", "train.amp"},
          "an update in the backward pass cannot be taken back where a later gradient of 'train.amp: fp16' overflows",
          "train.amp: bf16, or memory.update: at_end");
    }
  }

  void check_storage() {
    const MemoryConfig& memory = experiment_.memory;
    const Amp amp = experiment_.train.amp;
    if (memory.gradients == GradientStorage::half && amp == Amp::off) {
      refuse({"memory.gradients", "train.amp"}, "gradients are stored in the 16-bit type of 'train.amp', which is off",
             "train.amp: bf16 or fp16, or memory.gradients: f32");
    }
    if (!memory.master_weights && amp != Amp::bf16) {
      refuse({"memory.master_weights", "train.amp"},
             "weights without an f32 copy are bf16, which 'train.amp' has to be as well",
             "train.amp: bf16, or memory.master_weights: true");
    }
    if (!memory.master_weights && experiment_.average.type != AverageType::off) {
      refuse({"average.type", "memory.master_weights"},
             "'average' is of weights in f32, and 'memory.master_weights: false' leaves none",
             "average: off, or memory.master_weights: true");
    }
    if (memory.moments == MomentStorage::eight_bit && experiment_.optimizer.type == OptimizerType::sgd) {
      refuse({"memory.moments", "optimizer.type"}, "sgd has no moments to store in 8 bits",
             "optimizer: adam or adamw, or memory.moments: f32");
    }
  }

  /// What parallel.deterministic asks for: Note [Sums of parts] in engine/program/part_sums.h.
  void check_parts() {
    const ParallelConfig& parallel = experiment_.parallel;
    if (!std::has_single_bit(static_cast<std::uint64_t>(parallel.parts)))
      return refuse({"parallel.parts"}, fmt::format("{} parts of a batch are not added up in pairs", parallel.parts),
                    "a power of two: 1, 2, 4, 8, …");
    if (!parallel.deterministic) return;
    const auto refuse_with = [&](const std::string& key, const std::string& reason, const std::string& other) {
      refuse({"parallel.deterministic", key}, reason, "parallel.deterministic: false, or " + other);
    };
    if (is_pipelined(parallel))
      refuse_with(parallel.pipeline > 1 ? "parallel.pipeline" : "parallel.micro_batches",
                  "micro-batches of a pipeline are added up one behind the other, not in pairs",
                  "parallel.pipeline: 1 without parallel.micro_batches");
    if (parallel.parts % parallel.data != 0)
      refuse_with("parallel.data",
                  fmt::format("{} parts of a batch cannot be shared evenly by {} ranks", parallel.parts, parallel.data),
                  "as many ranks as parallel.parts, or a half, a quarter, … of them");
    if (experiment_.train.batch_size.is_automatic())
      refuse_with("train.batch_size", "'train.batch_size: auto' looks for a batch that is computed at once",
                  "a number, which 'trainer fit --max train.batch_size' finds");
    if (experiment_.memory.on_oom == OnOutOfMemory::adapt)
      refuse_with("memory.on_oom", "'memory.on_oom: adapt' cuts batches in another way", "memory.on_oom: report");
    if (experiment_.memory.update == UpdatePlace::in_backward)
      refuse_with(
          "memory.update",
          "the gradients of parts are added up before an update, and 'memory.update: in_backward' updates sooner",
          "memory.update: at_end");
    if (parallel.sync_batchnorm)
      refuse_with("parallel.sync_batchnorm",
                  "parts are computed one behind the other, so no batch norm sees all of them",
                  "parallel.sync_batchnorm: false");
    if (experiment_.memory.gradients == GradientStorage::half)
      refuse_with("memory.gradients", "sums of 16-bit gradients are rounded where ranks meet", "memory.gradients: f32");
  }

  void check_pipeline() {
    const ParallelConfig& parallel = experiment_.parallel;
    if (!is_pipelined(parallel)) return;
    const std::string key = parallel.pipeline > 1 ? "parallel.pipeline" : "parallel.micro_batches";
    const auto refuse_with = [&](const std::string& other, const std::string& reason, const std::string& instead) {
      refuse({other, key}, reason, key + ": 1, or " + instead);
    };
    const std::int64_t num_cuts = parallel.pipeline * chunks_of_rank(parallel) - 1;
    if (!parallel.cut.empty() && std::ssize(parallel.cut) != num_cuts)
      refuse(
          {"parallel.cut", key, "parallel.schedule", "parallel.chunks"},
          fmt::format("'parallel.cut' says where {} parts of the list of layers begin, and {} begin behind the first",
                      parallel.cut.size(), num_cuts),
          fmt::format("{} layers, or auto", num_cuts));
    if (parallel.sync_batchnorm && parallel.data > 1)
      refuse_with("parallel.sync_batchnorm", "micro-batches of a pipeline are normalized each by itself",
                  "parallel.sync_batchnorm: false");
    if (experiment_.memory.update == UpdatePlace::in_backward)
      refuse_with(
          "memory.update",
          "micro-batches add up their gradients before an update, and 'memory.update: in_backward' updates sooner",
          "memory.update: at_end");
  }

  void check_tensor() {
    const ParallelConfig& parallel = experiment_.parallel;
    if (parallel.tensor == 1) return;
    const auto refuse_with = [&](const std::string& other, const std::string& reason, const std::string& instead) {
      refuse({other, "parallel.tensor"}, reason, "parallel.tensor: 1, or " + instead);
    };
    if (parallel.deterministic)
      refuse_with("parallel.deterministic", "a layer's sums over the ranks that share it have no order of parts",
                  "parallel.deterministic: false");
    if (experiment_.device.autotune)
      refuse_with("device.autotune",
                  "ranks that share layers compute the rest alike, and would measure other algorithms",
                  "device.autotune: false");
    if (experiment_.memory.moments == MomentStorage::eight_bit)
      refuse_with("memory.moments", "blocks of 8-bit moments run across the parts that ranks have of a weight",
                  "memory.moments: f32");
    if (!experiment_.memory.master_weights)
      refuse_with("memory.master_weights", "what rounds a weight is drawn by its place in the whole of it",
                  "memory.master_weights: true");
  }

  void check_parallel() {
    check_parts();
    check_pipeline();
    check_tensor();
    const ParallelConfig& parallel = experiment_.parallel;
    if (total_ranks(parallel) == 1) return;
    if (total_ranks(parallel) > most_ranks)
      refuse({"parallel.data", "parallel.pipeline", "parallel.tensor"},
             fmt::format("{} ranks are more than the {} that can train together", total_ranks(parallel), most_ranks));
    const std::string key = parallel.data > 1       ? "parallel.data"
                            : parallel.pipeline > 1 ? "parallel.pipeline"
                                                    : "parallel.tensor";
    const std::string expectation = key + ": 1, or ";
    if (experiment_.train.batch_size.is_automatic())
      refuse({key, "train.batch_size"},
             "'train.batch_size: auto' is found by one process for itself, and ranks share one batch",
             expectation + "a number, which 'trainer fit --max train.batch_size' finds");
    if (experiment_.memory.on_oom == OnOutOfMemory::adapt)
      refuse({key, "memory.on_oom"}, "'memory.on_oom: adapt' changes one process, and ranks share a batch",
             expectation + "memory.on_oom: report");
    if (experiment_.memory.update == UpdatePlace::in_backward)
      refuse({key, "memory.update"},
             "ranks add up their gradients before an update, and 'memory.update: in_backward' updates sooner",
             expectation + "memory.update: at_end");
  }

  const Experiment& experiment_;
  const ExperimentKeys& given_;
  SourceSet& sources_;
};

}  // namespace

void check_experiment(const Experiment& experiment, const ExperimentKeys& given, SourceSet& sources) {
  Rules(experiment, given, sources).check();
}

}  // namespace trainer
