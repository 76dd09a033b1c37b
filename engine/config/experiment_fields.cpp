#include "engine/config/experiment_fields.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/config/layer_fields.h"

namespace trainer {
namespace {

using Fields = std::vector<ExperimentField>;
using Keys = std::vector<std::string>;

template <class Member>
ExperimentField of(Member Experiment::*member, const std::string& key, Rule rule, const std::string& help) {
  const auto access = [member](auto& experiment) -> auto& { return experiment.*member; };
  return field<Experiment>(key, access, std::move(rule), help);
}

template <class Part, class Member>
ExperimentField of(Part Experiment::*part, Member Part::*member, const std::string& key, Rule rule,
                   const std::string& help) {
  const auto access = [ part, member ](auto& experiment) -> auto& { return experiment.*part.*member; };
  return field<Experiment>(key, access, std::move(rule), help);
}

/// A key that has one value so far: nothing to store.
ExperimentField fixed(std::string key, std::string value, std::string help) {
  ExperimentField result;
  result.key = std::move(key);
  result.rule = choice({{value, ""}});
  result.help = std::move(help);
  result.set = [](Experiment&, const Value&) {};
  result.get = [value](const Experiment&) { return Value(value); };
  return result;
}

template <class Part>
ExperimentField steps_or_epochs(Part Experiment::*part, std::int64_t Part::*count, bool Part::*in_epochs,
                                std::string key, std::string help) {
  ExperimentField result;
  result.key = std::move(key);
  result.rule = interval();
  result.help = std::move(help);
  result.set = [=](Experiment& experiment, const Value& value) {
    const auto& every = std::get<Interval>(value);
    experiment.*part.*count = every.count;
    experiment.*part.*in_epochs = every.in_epochs;
  };
  result.get = [=](const Experiment& experiment) {
    return Value(Interval{experiment.*part.*count, experiment.*part.*in_epochs});
  };
  return result;
}

void add_device(Fields& fields) {
  ExperimentField type;
  type.key = "device.type";
  type.rule = device_name();
  type.help = "Where to compute: `auto` takes a CUDA device where there is one, else the CPU";
  type.set = [](Experiment& experiment, const Value& value) {
    const std::string& name = std::get<std::string>(value);
    DeviceConfig& device = experiment.device;
    device.type = name == "auto" ? DeviceType::automatic : name == "cpu" ? DeviceType::cpu : DeviceType::cuda;
    device.index = name.starts_with("cuda:") ? std::stoi(name.substr(5)) : 0;
  };
  type.get = [](const Experiment& experiment) {
    const DeviceConfig& device = experiment.device;
    if (device.type == DeviceType::automatic) return Value(std::string("auto"));
    if (device.type == DeviceType::cpu) return Value(std::string("cpu"));
    return Value(device.index == 0 ? std::string("cuda") : fmt::format("cuda:{}", device.index));
  };
  fields.push_back(std::move(type));
  fields.push_back(of(&Experiment::device, &DeviceConfig::threads, "device.threads", integer(0, 4096),
                      "CPU threads; 0: as many as the process may use")
                       .also_called({"num_threads", "workers", "num_workers"}));
  fields.push_back(of(&Experiment::device, &DeviceConfig::tf32, "device.tf32", boolean(),
                      "CUDA: let matrix products and convolutions round f32 operands to TF32, faster and less exact")
                       .also_called({"allow_tf32"}));
  fields.push_back(of(&Experiment::device, &DeviceConfig::autotune, "device.autotune", boolean(),
                      "CUDA: time the kernels that fit each convolution once and keep the fastest")
                       .also_called({"benchmark", "cudnn_benchmark"}));
  fields.push_back(of(&Experiment::device, &DeviceConfig::cuda_graph, "device.cuda_graph", boolean(),
                      "CUDA: replay a step that repeats itself as one launch; false shows each layer to a profiler"));
}

void add_memory(Fields& fields) {
  fields.push_back(of(&Experiment::memory, &MemoryConfig::limit, "memory.limit", size_of_memory(),
                      "The most that the allocator may reserve")
                       .defaults_to("what the device has free")
                       .also_called({"max", "capacity", "size"}));
  fields.push_back(of(&Experiment::memory, &MemoryConfig::workspace_limit, "memory.workspace_limit", size_of_memory(0),
                      "The most scratch a convolution may ask for where a kernel with less serves too")
                       .defaults_to("96 MiB")
                       .also_called({"workspace", "scratch"}));
  fields.push_back(of(&Experiment::memory, &MemoryConfig::allocator, "memory.allocator",
                      choice({{"caching", "keeps freed blocks for reuse, as PyTorch's does"},
                              {"planned", "gives every buffer its place in one segment before the run starts"}}),
                      "How blocks are placed"));
  fields.push_back(
      of(&Experiment::memory, &MemoryConfig::expandable_segments, "memory.expandable_segments", boolean(),
         "Let segments grow in place, as PyTorch's expandable segments: less is reserved where sizes vary"));
  fields.push_back(of(&Experiment::memory, &MemoryConfig::preflight, "memory.preflight", boolean(),
                      "Refuse to start what the plan shows not to fit"));
  fields.push_back(of(&Experiment::memory, &MemoryConfig::on_oom, "memory.on_oom",
                      choice({{"report", "end with a report of who held the memory and what would fit"}}),
                      "What happens when memory runs out"));
}

void add_data(Fields& fields) {
  constexpr auto data = &Experiment::data;
  const Keys images{"digits", "idx", "cifar10", "synthetic"};
  fields.push_back(of(data, &DataConfig::type, "data.type",
                      choice({{"digits", "1,797 handwritten digits of 8×8 that come with trainer"},
                              {"idx",
                               "MNIST, Fashion-MNIST and others in that format, plain or .gz",
                               {"mnist", "fashion-mnist", "fashion_mnist"}},
                              {"cifar10", "the binary version of CIFAR-10", {"cifar", "cifar-10"}},
                              {"csv", "a table of numbers with one target column"},
                              {"synthetic", "random samples of a given shape"}}),
                      "The format of the data")
                       .also_called({"kind", "dataset", "format"}));
  fields.push_back(of(data, &DataConfig::root, "data.root", text(), "The folder of the files")
                       .only({"idx", "cifar10"})
                       .also_called({"path", "dir", "folder"}));
  fields.push_back(of(data, &DataConfig::train, "data.train", text(),
                      "The training file; for idx the images, where their name is not the usual one")
                       .only({"csv", "idx"})
                       .also_called({"file", "train_file"}));
  fields.push_back(of(data, &DataConfig::validation, "data.validation", text(), "The validation file, likewise")
                       .only({"csv", "idx"})
                       .also_called({"val", "valid", "test"}));
  fields.push_back(
      of(data, &DataConfig::train_labels, "data.train_labels", text(), "The labels of `data.train`").only({"idx"}));
  fields.push_back(
      of(data, &DataConfig::validation_labels, "data.validation_labels", text(), "The labels of `data.validation`")
          .only({"idx"}));
  fields.push_back(of(data, &DataConfig::split, "data.split", number_below(0.0, 1.0),
                      "Share of the training samples set aside for validation, instead of validation files beside them")
                       .also_called({"validation_split", "val_split"}));
  fields.push_back(of(data, &DataConfig::shuffle, "data.shuffle", boolean(),
                      "Whether each epoch takes the training samples in a new order"));
  fields.push_back(of(data, &DataConfig::drop_last, "data.drop_last", boolean(),
                      "Whether a last batch that is not full is left out of training"));
  fields.push_back(of(data, &DataConfig::mean, "data.normalize.mean", number_or_numbers(number()),
                      "Subtracted from each channel of pixel / 255")
                       .only(images)
                       .defaults_to("not subtracted"));
  fields.push_back(of(data, &DataConfig::std, "data.normalize.std", number_or_numbers(number_above(0.0)),
                      "Divides each channel after that")
                       .only(images)
                       .defaults_to("not divided"));
  fields.push_back(
      of(data, &DataConfig::target, "data.target", text(), "The column to predict: its name, or its number from 0")
          .only({"csv"})
          .defaults_to("the last column")
          .also_called({"label", "y"}));
  fields.push_back(of(data, &DataConfig::target_type, "data.target_type",
                      choice({{"categorical", "classes"}, {"numeric", "a number to regress"}}), "What the target is")
                       .only({"csv", "synthetic"}));
  fields.push_back(of(data, &DataConfig::header, "data.header", boolean(), "Whether the first line names the columns")
                       .only({"csv"}));
  fields.push_back(of(data, &DataConfig::delimiter, "data.delimiter", text(), "The character between columns")
                       .only({"csv"})
                       .also_called({"sep", "separator"}));
  fields.push_back(of(data, &DataConfig::shape, "data.shape", integers(1),
                      "Of one sample: [height, width, channels] or [features]; for files, declares what they hold, so "
                      "that a plan needs no files")
                       .defaults_to("from the files"));
  fields.push_back(of(data, &DataConfig::classes, "data.classes", integer(0), "Number of classes; 0: from the data")
                       .also_called({"num_classes", "n_classes"}));
  fields.push_back(of(data, &DataConfig::samples, "data.samples", integer(0),
                      "Number of training samples, after the split; 0: from the data")
                       .also_called({"num_samples", "size", "length"}));
  fields.push_back(of(data, &DataConfig::validation_samples, "data.validation_samples", integer(0),
                      "Number of validation samples; 0: from the data"));
}

void add_model_and_loss(Fields& fields) {
  const auto layers = [](auto& experiment) -> auto& { return experiment.layers; };
  fields.push_back(layers_field<Experiment>("model.layers", layers, "The layers, first to last").required());
  fields.push_back(of(&Experiment::init, "model.init", choice(initialization_choices()),
                      "How weights start, where a layer does not say")
                       .also_called({"initialization", "initializer"}));

  constexpr auto loss = &Experiment::loss;
  fields.push_back(of(loss, &LossConfig::type, "loss.type",
                      choice({{"cross_entropy",
                               "softmax and negative log-likelihood of a class",
                               {"ce", "nll", "softmax", "categorical_crossentropy"}},
                              {"mse", "mean squared error", {"l2", "mean_squared_error"}},
                              {"bce_with_logits",
                               "sigmoid and binary cross-entropy",
                               {"bce", "binary_cross_entropy", "binary_crossentropy"}}}),
                      "What is minimized"));
  fields.push_back(of(loss, &LossConfig::label_smoothing, "loss.label_smoothing", number_below(0.0, 1.0),
                      "Share of the target spread over all classes")
                       .only({"cross_entropy"}));
  fields.push_back(of(loss, &LossConfig::class_weights, "loss.class_weights", numbers(number_at_least(0.0)),
                      "A weight for each class")
                       .only({"cross_entropy"})
                       .defaults_to("1 each")
                       .also_called({"weight", "weights"}));
}

void add_optimizer(Fields& fields) {
  constexpr auto optimizer = &Experiment::optimizer;
  fields.push_back(of(optimizer, &OptimizerConfig::type, "optimizer.type",
                      choice({{"sgd", "stochastic gradient descent, with momentum if asked"},
                              {"adam", "Adam, weight decay added to the gradient"},
                              {"adamw", "Adam with decoupled weight decay"}}),
                      "How parameters are updated")
                       .also_called({"name"}));
  fields.push_back(of(optimizer, &OptimizerConfig::lr, "optimizer.lr", number_at_least(0.0), "Learning rate")
                       .default_for("adam", "0.001")
                       .default_for("adamw", "0.001")
                       .also_called({"learning_rate", "rate"}));
  fields.push_back(of(optimizer, &OptimizerConfig::momentum, "optimizer.momentum", number_below(0.0, 1.0),
                      "Share of the last update kept in the next")
                       .only({"sgd"}));
  fields.push_back(of(optimizer, &OptimizerConfig::nesterov, "optimizer.nesterov", boolean(),
                      "Nesterov's momentum; needs momentum above 0")
                       .only({"sgd"}));
  fields.push_back(of(optimizer, &OptimizerConfig::weight_decay, "optimizer.weight_decay", number_at_least(0.0),
                      "Strength of the pull of weights to zero")
                       .default_for("adamw", "0.01")
                       .also_called({"wd", "l2", "decay"}));
  ExperimentField betas;
  betas.key = "optimizer.betas";
  betas.rule = numbers(number_below(0.0, 1.0), 2);
  betas.help = "Decay of the running means of the gradient and of its square";
  betas.set = [](Experiment& experiment, const Value& value) {
    const auto& both = std::get<std::vector<double>>(value);
    experiment.optimizer.beta1 = both.at(0);
    experiment.optimizer.beta2 = both.at(1);
  };
  betas.get = [](const Experiment& experiment) {
    return Value(std::vector<double>{experiment.optimizer.beta1, experiment.optimizer.beta2});
  };
  fields.push_back(std::move(betas).only({"adam", "adamw"}).also_called({"beta", "beta1", "beta2"}));
  fields.push_back(
      of(optimizer, &OptimizerConfig::eps, "optimizer.eps", number_above(0.0), "Added to the root of the second moment")
          .only({"adam", "adamw"})
          .also_called({"epsilon"}));
  fields.push_back(of(optimizer, &OptimizerConfig::decay_norms_and_biases, "optimizer.decay_norms_and_biases",
                      boolean(), "Whether norms and biases decay too, as they do in PyTorch unless told otherwise"));
}

void add_schedule(Fields& fields) {
  constexpr auto schedule = &Experiment::schedule;
  ExperimentField type = of(schedule, &ScheduleConfig::type, "schedule.type",
                            choice({{"constant", "the same learning rate throughout"},
                                    {"step", "times `gamma` every `every`"},
                                    {"cosine", "half a cosine down to `final_factor`"},
                                    {"one_cycle", "up from a small learning rate, and down to a smaller one"},
                                    {"warmup", "constant after `warmup_steps` of rise"}}),
                            "How the learning rate changes")
                             .also_called({"name", "policy"});
  // Any type but one_cycle may warm up, so the word is only another name.
  type.set = [plain = type.set](Experiment& experiment, const Value& value) {
    plain(experiment, std::get<std::string>(value) == "warmup" ? Value(std::string("constant")) : value);
  };
  fields.push_back(std::move(type));
  fields.push_back(of(schedule, &ScheduleConfig::warmup_steps, "schedule.warmup_steps", integer(0),
                      "Steps in which the learning rate first rises from 0 in a line")
                       .only({"constant", "step", "cosine"})
                       .also_called({"warmup"}));
  fields.push_back(steps_or_epochs(schedule, &ScheduleConfig::step_size, &ScheduleConfig::step_size_in_epochs,
                                   "schedule.every", "Steps or epochs between decays")
                       .only({"step"})
                       .also_called({"step_size"}));
  fields.push_back(of(schedule, &ScheduleConfig::gamma, "schedule.gamma", fraction(), "Factor of each decay")
                       .only({"step"})
                       .also_called({"factor"}));
  fields.push_back(of(schedule, &ScheduleConfig::final_factor, "schedule.final_factor", number_at_least(0.0),
                      "Learning rate at the end, as a share of `optimizer.lr`")
                       .only({"cosine"})
                       .also_called({"min_factor", "eta_min"}));
  fields.push_back(of(schedule, &ScheduleConfig::warmup_fraction, "schedule.warmup_fraction", fraction(),
                      "Share of the run until the highest learning rate")
                       .only({"one_cycle"})
                       .also_called({"pct_start"}));
  fields.push_back(of(schedule, &ScheduleConfig::start_divisor, "schedule.start_divisor", number_above(0.0),
                      "The run starts at `optimizer.lr` divided by this")
                       .only({"one_cycle"})
                       .also_called({"div_factor", "div"}));
  fields.push_back(of(schedule, &ScheduleConfig::final_divisor, "schedule.final_divisor", number_above(0.0),
                      "The run ends at `optimizer.lr` divided by this")
                       .only({"one_cycle"})
                       .also_called({"final_div_factor", "div_final"}));
}

void add_train(Fields& fields) {
  constexpr auto train = &Experiment::train;
  ExperimentField batch_size;
  batch_size.key = "train.batch_size";
  batch_size.rule = integer_or("all", 1);
  batch_size.help = "Samples in a batch; `all`: the whole training set";
  batch_size.set = [](Experiment& experiment, const Value& value) {
    experiment.train.batch_size_all = std::holds_alternative<std::string>(value);
    if (!experiment.train.batch_size_all) experiment.train.batch_size = std::get<std::int64_t>(value);
  };
  batch_size.get = [](const Experiment& experiment) {
    return experiment.train.batch_size_all ? Value(std::string("all")) : Value(experiment.train.batch_size);
  };
  fields.push_back(std::move(batch_size).also_called({"batch", "bs", "minibatch_size"}));
  fields.push_back(of(train, &TrainConfig::epochs, "train.epochs", integer(0), "Passes over the training samples")
                       .also_called({"num_epochs", "max_epochs", "n_epochs"}));
  fields.push_back(of(train, &TrainConfig::steps, "train.steps", integer(0),
                      "Ends the run after so many updates, whatever `epochs` says; 0 only saves the initial weights")
                       .defaults_to("as `epochs` says")
                       .also_called({"max_steps", "num_steps", "iterations", "max_iters"}));
  fields.push_back(of(train, &TrainConfig::accumulation_steps, "train.accumulation_steps", integer(1),
                      "Batches whose gradients make one update")
                       .also_called({"gradient_accumulation_steps", "accumulate", "grad_accum"}));
  fields.push_back(of(train, &TrainConfig::clip_norm, "train.clip_norm", number_at_least(0.0),
                      "Largest L2 norm of all gradients together; 0: no clipping")
                       .also_called({"grad_clip", "max_grad_norm", "gradient_clip_val", "clip"}));
  fields.push_back(of(train, &TrainConfig::eval_batch_size, "train.eval_batch_size", integer(0),
                      "Samples in a batch of evaluation; 0: `batch_size`")
                       .also_called({"validation_batch_size", "val_batch_size"}));
  fields.push_back(of(train, &TrainConfig::eval_every, "train.eval_every", integer(0),
                      "Steps between evaluations; 0: at the end of each epoch")
                       .also_called({"eval_steps", "eval_interval"}));
  ExperimentField patience = field<Experiment>(
      "train.early_stopping.patience", [](auto& e) -> auto& { return e.train.early_stopping.patience; }, integer(0),
      "Ends the run after so many evaluations in which the metric of `checkpoint.best` got no better; 0: never");
  fields.push_back(std::move(patience));
  ExperimentField min_delta = field<Experiment>(
      "train.early_stopping.min_delta", [](auto& e) -> auto& { return e.train.early_stopping.min_delta; },
      number_at_least(0.0), "By how much the metric of `checkpoint.best` must improve to count as better");
  fields.push_back(std::move(min_delta));
  fields.push_back(of(train, &TrainConfig::log_every, "train.log_every", integer(0),
                      "Steps between lines of output; 0: a number that suits the run")
                       .also_called({"log_interval", "print_every", "logging_steps"}));
  fields.push_back(fixed("train.amp", "off", "Mixed precision; all arithmetic is fp32")
                       .also_called({"mixed_precision", "precision", "fp16", "bf16"}));
  fields.push_back(fixed("train.checkpointing", "off", "Recomputing activations instead of keeping them")
                       .also_called({"gradient_checkpointing", "activation_checkpointing"}));
}

Fields make_fields() {
  Fields fields;
  fields.push_back(of(&Experiment::name, "name", text(), "What the run is called").defaults_to("the file's name"));
  fields.push_back(of(&Experiment::seed, "seed", integer(0, std::numeric_limits<std::int64_t>::max()),
                      "Where all randomness starts: initial weights, order of samples, dropout")
                       .also_called({"random_seed"}));
  add_device(fields);
  add_memory(fields);
  add_data(fields);
  add_model_and_loss(fields);
  add_optimizer(fields);
  add_schedule(fields);
  add_train(fields);
  constexpr auto checkpoint = &Experiment::checkpoint;
  fields.push_back(steps_or_epochs(checkpoint, &CheckpointConfig::every, &CheckpointConfig::every_in_epochs,
                                   "checkpoint.every", "Steps or epochs between checkpoints; 0: only at the end")
                       .also_called({"interval", "save_every", "save_steps"}));
  fields.push_back(of(checkpoint, &CheckpointConfig::keep, "checkpoint.keep", integer(1),
                      "How many of the newest are kept; the best one is kept beside them")
                       .also_called({"save_total_limit", "max_to_keep"}));
  fields.push_back(of(checkpoint, &CheckpointConfig::best, "checkpoint.best",
                      choice({{"loss", "lowest validation loss"}, {"accuracy", "highest validation accuracy"}}),
                      "What makes a checkpoint the best")
                       .also_called({"metric", "monitor"}));
  fields.push_back(of(&Experiment::output, "output", text(), "The folder that a run writes; never overwritten unasked")
                       .defaults_to("runs/${name}")
                       .also_called({"output_dir", "out_dir", "save_dir"}));
  return fields;
}

}  // namespace

const std::vector<ExperimentField>& experiment_fields() {
  static const Fields fields = make_fields();
  return fields;
}

const std::vector<Section>& sections() {
  static const std::vector<Section> all{
      {"", "An experiment", false, false},
      {"device", "Where to compute; `device: cpu` is short for `device: {type: cpu}`", true, false},
      {"memory", "The memory that a run may hold", false, false},
      {"data", "What to learn from; `data: digits` is short for `data: {type: digits}`", true, false},
      {"data.normalize", "(pixel / 255 − mean) / std, on the device; one value serves all channels", false, false},
      {"model", "What to train", false, false},
      {"loss", "What to minimize; `loss: mse` is short for `loss: {type: mse}`", true, true},
      {"optimizer", "How to update; `optimizer: adamw` is short for `optimizer: {type: adamw}`", true, false},
      {"schedule", "The learning rate over time; `schedule: cosine` is short for `schedule: {type: cosine}`", true,
       false},
      {"train", "How long, in what portions", false, false},
      {"train.early_stopping", "Ending early when nothing gets better", false, false},
      {"checkpoint", "What is saved, and when", false, false},
  };
  return all;
}

const ExperimentField* find_field(std::string_view key) { return find_field(experiment_fields(), key); }

const Section* find_section(std::string_view key) {
  for (const Section& each : sections()) {
    if (each.key == key) return &each;
  }
  return nullptr;
}

std::vector<std::string> keys_of_section(std::string_view section) {
  return keys_of_section(experiment_fields(), section);
}

}  // namespace trainer
