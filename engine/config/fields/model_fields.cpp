#include "engine/config/fields/field_groups.h"

#include <utility>

#include "engine/config/fields/layer_fields.h"

namespace trainer {

namespace {

/// A key that is gone once the model is written out.
ExperimentField written_out(const std::string& key, Rule rule, const std::string& help) {
  ExperimentField result;
  result.key = key;
  result.rule = std::move(rule);
  result.help = help;
  result.set = [](Experiment&, const Value&) {};
  result.get = [](const Experiment&) { return Value(); };
  return result;
}

}  // namespace

void add_model_fields(Fields& fields) {
  using enum ResumeEffect;
  const auto layers = [](auto& experiment) -> auto& { return experiment.layers; };
  fields.add(changes_numbers, layers_field<Experiment>("model.layers", layers, "The layers, first to last").required());
  fields.add(changes_numbers,
             written_out("model.blocks", named_blocks(), "Blocks of layers, used by name like layers"));
  fields.add(changes_numbers,
             written_out("model.file", text(),
                         "A file with the model, instead of `layers`: relative to this one, or one that comes with "
                         "trainer, such as models/resnet.yaml"));
  fields.add(changes_numbers, written_out("model.with", named_values(), "Values of the parameters of `model.file`"));
  fields.add(changes_numbers, of(&Experiment::init, "model.init", initialization_choices(),
                                 "How weights start, where a layer does not say")
                                  .also_called({"initialization", "initializer"}));

  add_loss_fields(fields);
}

}  // namespace trainer
