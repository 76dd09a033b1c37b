#include "engine/config/fields/field_groups.h"

#include "engine/config/fields/layer_fields.h"

namespace trainer {

void add_model_fields(Fields& fields) {
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

}  // namespace trainer
