#include "engine/config/fields/enum_choices.h"
#include "engine/config/fields/field_groups.h"

namespace trainer {

void add_average_fields(Fields& fields) {
  using enum ResumeEffect;
  constexpr auto average = &Experiment::average;
  fields.add(changes_numbers,
             of(average, &AverageConfig::type, "average.type",
                choice<AverageType>(
                    {{"off", AverageType::off, "the model is the weights as the last step left them", {"none", "no"}},
                     {"ema",
                      AverageType::ema,
                      "an exponential moving average of the weights",
                      {"exponential", "ewma", "polyak", "moving_average"}},
                     {"swa",
                      AverageType::swa,
                      "the plain mean of the weights (stochastic weight averaging)",
                      {"mean", "stochastic_weight_averaging", "equal"}}}),
                "Averages of the weights, and of batch norms' running statistics, that are evaluated, saved and handed "
                "on in their place; 4 bytes more for each number that steps change")
                 .also_called({"ema", "swa", "averaging", "averaged_model", "weight_averaging", "use_ema", "model_ema",
                               "polyak_averaging"}));
  Rule share = number_below(0.0, 1.0);
  share.excludes_minimum = true;
  fields.add(changes_numbers, of(average, &AverageConfig::decay, "average.decay", share,
                                 "average = decay · average + (1 − decay) · weight; the first one is a copy")
                                  .only({"ema"})
                                  .also_called({"beta", "alpha", "momentum", "ema_decay", "ema_momentum"}));
  fields.add(changes_numbers,
             steps_or_epochs(
                 average, &AverageConfig::after, &AverageConfig::after_in_epochs, "average.after",
                 "Steps or epochs that do not count; behind them each `every`-th does, and until the first the average "
                 "follows the weights")
                 .only({"ema", "swa"})
                 .also_called({"start", "swa_start", "from", "warmup", "swa_epoch_start", "begin"}));
  ExperimentField every = steps_or_epochs(average, &AverageConfig::every, &AverageConfig::every_in_epochs,
                                          "average.every", "Steps or epochs from one that counts to the next");
  every.rule.minimum = 1;
  fields.add(changes_numbers, std::move(every)
                                  .only({"ema", "swa"})
                                  .default_for("swa", "1ep")
                                  .also_called({"interval", "freq", "frequency", "update_every", "swa_freq"}));
}

}  // namespace trainer
