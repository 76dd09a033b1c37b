#include "engine/config/fields/field_groups.h"
#include "engine/config/fields/written_out_field.h"

namespace trainer {
namespace {

/// Shown where there is a file: without one it says nothing.
ExperimentField strict() {
  ExperimentField result = of(&Experiment::weights, &WeightsConfig::strict, "weights.strict", boolean(),
                              "Whether what the file or the model alone has must be named in `ignore` or `new`; shapes "
                              "must agree in any case, but for axes of length 1");
  result.get = [](const Experiment& experiment) {
    return experiment.weights.file.empty() ? Value() : Value(experiment.weights.strict);
  };
  return std::move(result).defaults_to("true");
}

}  // namespace

// What is resumed has its weights already, so that none of these keys changes how it goes on.
void add_weights_fields(Fields& fields) {
  using enum ResumeEffect;
  constexpr auto weights = &Experiment::weights;
  fields.add(harmless, of(weights, &WeightsConfig::file, "weights.file", text(),
                          "A safetensors file, an index of its shards (`….safetensors.index.json`), or the folder of "
                          "either, of a checkpoint or of a run (its best); `run --weights PATH` goes before it")
                           .also_called({"checkpoint_path", "load_from", "init_from", "resume_from", "state_dict",
                                         "pretrained_weights", "load_weights"}));
  fields.add(harmless,
             written_out<Experiment>("weights.map", text(),
                                     "One of `model.maps`: `rename`, `transpose` and `ignore` for files of others, "
                                     "where they are not written here")
                 .also_called({"names", "format"}));
  fields.add(harmless, of(weights, &WeightsConfig::rename, "weights.rename", rewrites(),
                          "What to make of the names in the file, one after the other: every match is replaced, `\\1` "
                          "is what the first group matched")
                           .also_called({"key_mapping", "name_map"}));
  fields.add(harmless, of(weights, &WeightsConfig::transpose, "weights.transpose", tensor_names(),
                          "Tensors, by the model's names, whose two axes the file has the other way round (matrices of "
                          "GPT-2's Conv1D)"));
  fields.add(harmless, of(weights, &WeightsConfig::ignore, "weights.ignore", tensor_names(),
                          "Tensors of the file that are not loaded, by their names there or as renamed")
                           .also_called({"unexpected_keys"}));
  fields.add(harmless, of(weights, &WeightsConfig::fresh, "weights.new", tensor_names(),
                          "Tensors of the model that start as without a file; what the file has of them is ignored")
                           .also_called({"missing_keys", "reinit"}));
  fields.add(harmless, of(weights, &WeightsConfig::optional, "weights.optional",
                          choices<WeightsNames>({{"rename", WeightsNames::rename, "expressions"},
                                                 {"ignore", WeightsNames::ignore, "names"}}),
                          "Of `rename` and `ignore` those whose entries may match nothing in the file, as those of a "
                          "`map` may")
                           .defaults_to("what `map` gives"));
  fields.add(harmless, strict());
}

}  // namespace trainer
