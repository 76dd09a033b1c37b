#include "engine/config/fields/experiment_fields.h"

#include <limits>
#include <utility>

#include "engine/config/fields/field_groups.h"
#include "engine/config/fields/freeze_fields.h"
#include "engine/config/fields/written_out_field.h"

namespace trainer {
namespace {

std::vector<ExperimentField> make_fields() {
  using enum ResumeEffect;
  Fields fields;
  fields.add(harmless, of(&Experiment::name, "name", text(), "What the run is called").defaults_to("the file's name"));
  fields.add(changes_numbers, of(&Experiment::seed, "seed", integer(0, std::numeric_limits<std::int64_t>::max()),
                                 "Where all randomness starts: initial weights, order of samples, dropout")
                                  .also_called({"random_seed"}));
  add_device_fields(fields);
  add_memory_fields(fields);
  add_data_fields(fields);
  add_model_fields(fields);
  add_weights_fields(fields);
  ExperimentField freeze = freeze_field();
  fields.add(changes_numbers, std::move(freeze).also_called({"frozen", "freeze_layers", "requires_grad"}));
  ExperimentField norms = field<Experiment>(
      "freeze_norms", [](auto& experiment) -> auto& { return experiment.freeze.norms; },
      choice<FrozenNorms>(
          {{"off", FrozenNorms::train, "they train on, as fastai's do", {"no"}},
           {"parameters", FrozenNorms::parameters,
            "their weights stay, and batch norms go by their batches and move their running statistics, "
            "as PyTorch's do without requires_grad"},
           {"on",
            FrozenNorms::whole,
            "batch norms go by their running statistics, which stay as well",
            {"true", "yes", "all"}}}),
      "What norms of frozen layers do");
  // Nothing to tell of where nothing is frozen.
  norms.get = [get = norms.get](const Experiment& experiment) {
    const bool is_usual = experiment.freeze.entries.empty() && experiment.freeze.norms == FrozenNorms::parameters;
    return is_usual ? Value() : get(experiment);
  };
  fields.add(changes_numbers,
             std::move(norms).defaults_to("parameters").also_called({"train_bn", "freeze_bn", "bn_freeze"}));
  add_optimizer_fields(fields);
  add_schedule_fields(fields);
  add_average_fields(fields);
  add_train_fields(fields);
  add_checkpoint_fields(fields);
  add_logging_fields(fields);
  add_parallel_fields(fields);
  fields.add(
      changes_numbers,
      written_out<Experiment>(
          "stages", stage_list(),
          "What is trained one after the other in one run: a list of keys that each stage changes, beside `name`, "
          "`freeze`, `unfreeze`, `optimizer: keep` or `clear`, and `purge: false`, with which it begins with what the "
          "stage before has cached; or `{fine_tune: {epochs: 3}}`"));
  fields.add(harmless,
             of(&Experiment::output, "output", text(), "The folder that a run writes; never overwritten unasked")
                 .defaults_to("runs/${name}")
                 .also_called({"output_dir", "out_dir", "save_dir"}));
  return std::move(fields).all();
}

}  // namespace

const std::vector<ExperimentField>& experiment_fields() {
  static const std::vector<ExperimentField> fields = make_fields();
  return fields;
}

const std::vector<KeyEffects>& key_effects() {
  static const std::vector<KeyEffects> all(experiment_fields().begin(), experiment_fields().end());
  return all;
}

const KeyEffects* find_key_effects(std::string_view key) { return find_field(key); }

const std::vector<Section>& sections() {
  static const std::vector<Section> all{
      {"", "An experiment", false, false},
      {"device", "Where to compute; `device: cpu` is short for `device: {type: cpu}`", true, false},
      {"memory", "The memory that a run may hold", false, false},
      {"data", "What to learn from; `data: digits` is short for `data: {type: digits}`", true, false},
      {"data.fields", "Names of arrays in a file that holds several, with type arrays", false, false},
      {"data.normalize", "(pixel / 255 − mean) / std, on the device; one value serves all channels", false, false},
      {"data.transforms", "What is done to images before the model sees them, on the host", false, false},
      {"model", "What to train", false, false},
      {"loss", "What to minimize; `loss: mse` is short for `loss: {type: mse}`", true, true},
      {"loss.network", "The frozen network of `loss: feature`, said as a model is", false, false},
      {"loss.network.weights", "What it has learned", false, false},
      {"weights", "Where training starts, in place of random numbers; a run that is resumed goes on from its own",
       false, false},
      {"optimizer", "How to update; `optimizer: adamw` is short for `optimizer: {type: adamw}`", true, false},
      {"schedule", "The learning rate over time; `schedule: cosine` is short for `schedule: {type: cosine}`", true,
       false},
      {"average",
       "Averages of the weights, which are then the model; `average: ema` is short for `average: {type: ema}`", true,
       false},
      {"train", "How long, in what portions", false, false},
      {"train.loss_scale", "What the loss of `train.amp: fp16` is multiplied by, so that small gradients are not 0",
       false, false},
      {"train.early_stopping", "Ending early when nothing gets better", false, false},
      {"checkpoint", "What is saved, and when", false, false},
      {"logging", "Where a run is told while it goes on, beside events.jsonl; of several ranks rank 0 does", false,
       false},
      {"parallel", "Several processes that train one model together", false, false},
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
