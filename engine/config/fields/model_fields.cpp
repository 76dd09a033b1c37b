#include "engine/config/fields/field_groups.h"

#include <utility>

#include "engine/config/fields/enum_choices.h"
#include "engine/config/fields/layer_fields.h"

namespace trainer {

const EnumRule<LossType>& loss_choices() {
  static const auto all =
      choice<LossType>({{"cross_entropy",
                         LossType::cross_entropy,
                         "softmax and negative log-likelihood of a class",
                         {"ce", "nll", "softmax", "categorical_crossentropy", "CrossEntropyLoss"}},
                        {"mse", LossType::mse, "mean squared error", {"l2", "mean_squared_error", "MSELoss"}},
                        {"bce_with_logits",
                         LossType::bce_with_logits,
                         "sigmoid and binary cross-entropy",
                         {"bce", "binary_cross_entropy", "binary_crossentropy", "BCEWithLogitsLoss"}}});
  return all;
}

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

  constexpr auto loss = &Experiment::loss;
  fields.add(changes_numbers, of(loss, &LossConfig::type, "loss.type", loss_choices(), "What is minimized"));
  fields.add(changes_numbers, of(loss, &LossConfig::label_smoothing, "loss.label_smoothing", number_below(0.0, 1.0),
                                 "Share of the target spread over all classes")
                                  .only({"cross_entropy"}));
  fields.add(changes_numbers, of(loss, &LossConfig::class_weights, "loss.class_weights", numbers(number_at_least(0.0)),
                                 "A weight for each class")
                                  .only({"cross_entropy"})
                                  .defaults_to("1 each")
                                  .also_called({"weight", "weights"}));
}

}  // namespace trainer
