#include "engine/config/fields/enum_choices.h"
#include "engine/config/fields/field_groups.h"

namespace trainer {
namespace {

void add_precision_fields(Fields& fields) {
  using enum ResumeEffect;
  fields.add(
      changes_numbers,
      of(&Experiment::train, &TrainConfig::amp, "train.amp",
         choice<Amp>({{"off", Amp::off, "all arithmetic in f32", {"fp32", "float32", "f32", "none", "no"}},
                      {"fp16", Amp::fp16, "with a scaled loss", {"half", "float16", "f16", "mixed", "true", "on"}},
                      {"bf16", Amp::bf16, "f32's range, with fewer digits", {"bfloat16"}}}),
         "Mixed precision: products and stored activations in 16 bit, weights and sums in f32")
          .technique(NumbersEffect::other)
          .also_called({"mixed_precision", "half", "autocast", "precision", "fp16", "bf16", "to_fp16", "to_bf16"}));
  const auto scale = [](auto member) {
    return [member](auto& experiment) -> auto& { return experiment.train.loss_scale.*member; };
  };
  Rule share = number_below(0.0, 1.0);
  share.excludes_minimum = true;
  const std::string amp = "train.amp";
  fields.add(changes_numbers, field<Experiment>("train.loss_scale.initial", scale(&LossScaleConfig::initial),
                                                number_below(1e-4, 1e30), "What the loss is multiplied by at first")
                                  .only_with(amp, {"fp16"})
                                  .also_called({"init_scale", "init", "start"}));
  fields.add(changes_numbers, field<Experiment>("train.loss_scale.growth", scale(&LossScaleConfig::growth),
                                                number_above(1.0), "Factor after `interval` steps without an overflow")
                                  .only_with(amp, {"fp16"})
                                  .also_called({"growth_factor", "scale_factor"}));
  fields.add(changes_numbers, field<Experiment>("train.loss_scale.backoff", scale(&LossScaleConfig::backoff), share,
                                                "Factor after an overflow, whose update is skipped")
                                  .only_with(amp, {"fp16"})
                                  .also_called({"backoff_factor"}));
  fields.add(changes_numbers, field<Experiment>("train.loss_scale.interval", scale(&LossScaleConfig::interval),
                                                integer(1), "Steps without an overflow until the scale grows")
                                  .only_with(amp, {"fp16"})
                                  .also_called({"growth_interval", "scale_window"}));
}

using CheckpointingRule = EnumRule<CheckpointingConfig::Type>;

void set_checkpointing(CheckpointingConfig& config, const Value& value, const CheckpointingRule& rule) {
  using Type = CheckpointingConfig::Type;
  config = {};
  if (const auto* word = std::get_if<std::string>(&value)) {
    config.type = rule.value_of(*word);
    return;
  }
  const auto& form = std::get<Keyed>(value);
  if (form.key == "every") {
    config.type = Type::every;
    config.every = std::get<std::int64_t>(form.value);
  } else if (form.key == "layers") {
    config.type = Type::layers;
    config.layers = std::get<std::vector<std::string>>(form.value);
  } else {
    config.type = Type::budget;
    config.budget = std::get<std::int64_t>(form.value);
  }
}

Value checkpointing_value(const CheckpointingConfig& config, const CheckpointingRule& rule) {
  using Type = CheckpointingConfig::Type;
  switch (config.type) {
    case Type::every:
      return Keyed{"every", config.every};
    case Type::layers:
      return Keyed{"layers", config.layers};
    case Type::budget:
      return Keyed{"budget", config.budget};
    case Type::off:
    case Type::sqrt:
    case Type::automatic:
      break;
  }
  return rule.name_of(config.type);
}

ExperimentField checkpointing() {
  using Type = CheckpointingConfig::Type;
  const auto rule = choice_or_form<Type>(
      {{"off", Type::off, "all of it is kept", {"none", "no"}},
       {"sqrt", Type::sqrt, "the outputs of every √n-th of n layers are kept"},
       {"auto", Type::automatic, "as little is computed again as the capacity allows", {"on", "true", "best"}}},
      {{"every", "the outputs of every n-th layer are kept", integer(1), {"segments", "interval", "n"}},
       {"layers",
        "what these layers make is not kept: paths, kinds, or `*` for anything",
        layer_patterns(),
        {"modules", "patterns", "only"}},
       {"budget",
        "the fastest way whose step holds at most that much",
        size_of_memory(),
        {"limit", "memory", "size", "memory_budget"}}});
  ExperimentField result;
  result.key = "train.checkpointing";
  result.rule = rule;
  result.help = "What the backward pass computes again instead of finding it kept; results are the same";
  result.set = [rule](Experiment& e, const Value& value) { set_checkpointing(e.train.checkpointing, value, rule); };
  result.get = [rule](const Experiment& e) { return checkpointing_value(e.train.checkpointing, rule); };
  return std::move(result)
      .technique(NumbersEffect::same_bits)
      .also_called({"gradient_checkpointing", "activation_checkpointing", "checkpoint", "recompute", "recomputation",
                    "remat", "rematerialization"});
}

}  // namespace

const EnumRule<Metric>& metric_choices() {
  static const auto all = choice<Metric>(
      {{"loss", Metric::loss, "lowest validation loss", {"val_loss"}},
       {"accuracy", Metric::accuracy, "highest share of right guesses", {"acc", "val_accuracy"}},
       {"top5", Metric::top5, "highest share of classes among the five first guesses", {"top_5", "top5_accuracy"}},
       {"mean_iou",
        Metric::mean_iou,
        "highest mean over the classes of intersection / union",
        {"miou", "mIoU", "iou", "jaccard"}},
       {"dice",
        Metric::dice,
        "highest mean over the classes of 2 · intersection / (guessed + true)",
        {"f1", "dice_score", "mean_dice"}},
       {"mae", Metric::mae, "lowest mean absolute error", {"mean_absolute_error"}},
       {"r2", Metric::r2, "highest share of the targets' variance that is explained", {"r_squared", "r2_score"}}});
  return all;
}

void add_train_fields(Fields& fields) {
  using enum ResumeEffect;
  constexpr auto train = &Experiment::train;
  ExperimentField batch_size;
  batch_size.key = "train.batch_size";
  batch_size.rule = integer_or(std::vector<std::string>{"all", "auto"}, 1);
  batch_size.help =
      "Samples in a batch; `all`: the whole training set, as is any larger number; `auto`: the largest that fits";
  batch_size.set = [](Experiment& experiment, const Value& value) {
    BatchSize& size = experiment.train.batch_size;
    if (const auto* number = std::get_if<std::int64_t>(&value))
      size = *number;
    else
      size = std::get<std::string>(value) == "auto" ? BatchSize::Word::automatic : BatchSize::Word::all;
  };
  batch_size.get = [](const Experiment& experiment) {
    const BatchSize& size = experiment.train.batch_size;
    if (size.number()) return Value(*size.number());
    return Value(std::string(size.is_automatic() ? "auto" : "all"));
  };
  fields.add(changes_numbers,
             std::move(batch_size).technique(NumbersEffect::same_bits).also_called({"batch", "bs", "minibatch_size"}));
  fields.add(sets_length,
             of(train, &TrainConfig::epochs, "train.epochs", integer(0), "Passes over the training samples")
                 .also_called({"num_epochs", "max_epochs", "n_epochs"}));
  fields.add(sets_length,
             of(train, &TrainConfig::steps, "train.steps", integer(0),
                "Ends the run after so many updates, whatever `epochs` says; 0 only evaluates and saves the "
                "weights that it begins with")
                 .defaults_to("as `epochs` says")
                 .also_called({"max_steps", "num_steps", "iterations", "max_iters"}));
  fields.add(changes_numbers,
             of(train, &TrainConfig::accumulation_steps, "train.accumulation_steps", integer(1),
                "Batches whose gradients make one update")
                 .technique(NumbersEffect::same_bits)
                 .also_called({"gradient_accumulation_steps", "gradient_accumulation", "accumulate_grad_batches",
                               "accumulate", "accumulation", "grad_accum"}));
  fields.add(changes_numbers, of(train, &TrainConfig::clip_norm, "train.clip_norm", number_at_least(0.0),
                                 "Largest L2 norm of all gradients together; 0: no clipping")
                                  .also_called({"grad_clip", "max_grad_norm", "gradient_clip_val", "clip"}));
  fields.add(harmless, of(train, &TrainConfig::eval_batch_size, "train.eval_batch_size", integer(0),
                          "Samples in a batch of evaluation; 0: `batch_size`")
                           .technique(NumbersEffect::same_rounding)
                           .also_called({"validation_batch_size", "val_batch_size"}));
  fields.add(harmless, of(train, &TrainConfig::eval_every, "train.eval_every", integer(0),
                          "Steps between evaluations; 0: at the end of each epoch")
                           .also_called({"eval_steps", "eval_interval"}));
  fields.add(
      harmless,
      of(train, &TrainConfig::confusion_matrix, "train.confusion_matrix",
         choice<ConfusionMatrixUse>({{"auto", ConfusionMatrixUse::automatic,
                                      "of up to 1,024 classes of pixels, or where `checkpoint.best` follows from it"},
                                     {"on", ConfusionMatrixUse::on, "of any classes", {"true", "yes"}},
                                     {"off", ConfusionMatrixUse::off, "only for `checkpoint.best`", {"false", "no"}}}),
         "Whether evaluations count which class is taken for which, on the device, for the summary, "
         "IoU and dice")
          .also_called({"metrics", "evaluation_metrics", "eval_metrics"}));
  ExperimentField patience = field<Experiment>(
      "train.early_stopping.patience", [](auto& e) -> auto& { return e.train.early_stopping.patience; }, integer(0),
      "Ends the run after so many evaluations in which the metric of `checkpoint.best` got no better; 0: never");
  fields.add(harmless, std::move(patience));
  ExperimentField min_delta = field<Experiment>(
      "train.early_stopping.min_delta", [](auto& e) -> auto& { return e.train.early_stopping.min_delta; },
      number_at_least(0.0), "By how much the metric of `checkpoint.best` must improve to count as better");
  fields.add(harmless, std::move(min_delta));
  fields.add(harmless, of(train, &TrainConfig::log_every, "train.log_every", integer(0),
                          "Steps between lines of output; 0: a number that suits the run")
                           .also_called({"log_interval", "print_every", "logging_steps"}));
  add_precision_fields(fields);
  fields.add(harmless, checkpointing());
}

void add_checkpoint_fields(Fields& fields) {
  using enum ResumeEffect;
  constexpr auto checkpoint = &Experiment::checkpoint;
  fields.add(harmless, steps_or_epochs(checkpoint, &CheckpointConfig::every, &CheckpointConfig::every_in_epochs,
                                       "checkpoint.every", "Steps or epochs between checkpoints; 0: only at the end")
                           .also_called({"interval", "save_every", "save_steps"}));
  fields.add(harmless, of(checkpoint, &CheckpointConfig::keep, "checkpoint.keep", integer(1),
                          "How many of the newest are kept; the best one is kept beside them")
                           .also_called({"save_total_limit", "max_to_keep"}));
  fields.add(harmless, of(checkpoint, &CheckpointConfig::sharded, "checkpoint.sharded", boolean(),
                          "Each of several ranks writes files of its own, at the same time, beside an index as Hugging "
                          "Face's: the same tensors, each whole in one file; in a folder that all ranks see")
                           .also_called({"distributed_checkpoint", "shards", "save_sharded", "sharded_state_dict"}));
  fields.add(changes_numbers, of(checkpoint, &CheckpointConfig::best, "checkpoint.best", metric_choices(),
                                 "What makes a checkpoint the best")
                                  .also_called({"metric", "monitor"}));
}

}  // namespace trainer
