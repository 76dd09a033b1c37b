#include "engine/config/fields/field_groups.h"

namespace trainer {

void add_optimizer_fields(Fields& fields) {
  using enum ResumeEffect;
  constexpr auto optimizer = &Experiment::optimizer;
  fields.add(changes_numbers,
             of(optimizer, &OptimizerConfig::type, "optimizer.type",
                choice<OptimizerType>(
                    {{"sgd", OptimizerType::sgd, "stochastic gradient descent, with momentum if asked", {"SGD"}},
                     {"adam", OptimizerType::adam, "Adam, weight decay added to the gradient", {"Adam"}},
                     {"adamw",
                      OptimizerType::adamw,
                      "Adam with decoupled weight decay",
                      {"AdamW", "adamw_torch", "adamw_hf"}}}),
                "How parameters are updated")
                 .also_called({"name"}));
  fields.add(changes_numbers,
             of(optimizer, &OptimizerConfig::lr, "optimizer.lr", number_or_group_numbers(number_at_least(0.0)),
                "Learning rate; of several layer groups `{slice: [first, last]}`, each the same "
                "multiple of the one before, `{slice: last}`, a tenth of it in the others, or one for "
                "each group by name")
                 .default_for("adam", "0.001")
                 .default_for("adamw", "0.001")
                 .also_called({"learning_rate", "rate", "max_lr", "lr_max", "base_lr"}));
  fields.add(changes_numbers, of(optimizer, &OptimizerConfig::momentum, "optimizer.momentum", number_below(0.0, 1.0),
                                 "Share of the last update kept in the next")
                                  .only({"sgd"}));
  fields.add(changes_numbers, of(optimizer, &OptimizerConfig::nesterov, "optimizer.nesterov", boolean(),
                                 "Nesterov's momentum; needs momentum above 0")
                                  .only({"sgd"}));
  fields.add(changes_numbers, of(optimizer, &OptimizerConfig::weight_decay, "optimizer.weight_decay",
                                 number_or_group_numbers(number_at_least(0.0)),
                                 "Strength of the pull of weights to zero; by group as `lr`")
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
  fields.add(changes_numbers, std::move(betas).only({"adam", "adamw"}).also_called({"beta", "beta1", "beta2"}));
  fields.add(changes_numbers, of(optimizer, &OptimizerConfig::eps, "optimizer.eps", number_above(0.0),
                                 "Added to the root of the second moment")
                                  .only({"adam", "adamw"})
                                  .also_called({"epsilon"}));
  fields.add(changes_numbers,
             of(optimizer, &OptimizerConfig::decay_norms_and_biases, "optimizer.decay_norms_and_biases", boolean(),
                "Whether norms and biases decay too, as they do in PyTorch unless told otherwise"));
}

void add_schedule_fields(Fields& fields) {
  using enum ResumeEffect;
  constexpr auto schedule = &Experiment::schedule;
  fields.add(changes_numbers,
             of(schedule, &ScheduleConfig::type, "schedule.type",
                choice<ScheduleType>(
                    {{"constant", ScheduleType::constant, "the same learning rate throughout", {"ConstantLR", "none"}},
                     {"step", ScheduleType::step, "times `gamma` every `every`", {"StepLR", "step_lr"}},
                     {"cosine",
                      ScheduleType::cosine,
                      "half a cosine down to `final_factor`",
                      {"CosineAnnealingLR", "cosine_annealing", "cosine_decay"}},
                     {"one_cycle",
                      ScheduleType::one_cycle,
                      "up from a small learning rate, and down to a smaller one",
                      {"OneCycleLR", "onecycle", "fit_one_cycle"}},
                     // Any type but one_cycle may warm up, so the word is only another name.
                     {"warmup", ScheduleType::constant, "constant after `warmup_steps` of rise"}}),
                "How the learning rate changes")
                 .also_called({"name", "policy"}));
  fields.add(changes_numbers,
             of(schedule, &ScheduleConfig::warmup_steps, "schedule.warmup_steps", integer(0),
                "Steps in which the learning rate first rises in a line: from `optimizer.lr` / `warmup_steps` with "
                "the first to `optimizer.lr` with the last of them")
                 .only({"constant", "step", "cosine", "warmup"})
                 .also_called({"warmup", "warmup_epochs", "num_warmup_steps"}));
  fields.add(changes_numbers,
             steps_or_epochs(schedule, &ScheduleConfig::step_size, &ScheduleConfig::step_size_in_epochs,
                             "schedule.every", "Steps or epochs between decays")
                 .only({"step"})
                 .also_called({"step_size"}));
  fields.add(changes_numbers, of(schedule, &ScheduleConfig::gamma, "schedule.gamma", fraction(), "Factor of each decay")
                                  .only({"step"})
                                  .also_called({"factor"}));
  fields.add(changes_numbers,
             of(schedule, &ScheduleConfig::final_factor, "schedule.final_factor", number_at_least(0.0),
                "What the learning rate falls to, as a share of `optimizer.lr`: the step behind the last would have it")
                 .only({"cosine"})
                 .also_called({"min_factor", "eta_min"}));
  fields.add(changes_numbers, of(schedule, &ScheduleConfig::warmup_fraction, "schedule.warmup_fraction", fraction(),
                                 "Share of the run's steps up to the one with the highest learning rate")
                                  .only({"one_cycle"})
                                  .also_called({"pct_start"}));
  fields.add(changes_numbers, of(schedule, &ScheduleConfig::start_divisor, "schedule.start_divisor", number_above(0.0),
                                 "The first step has `optimizer.lr` divided by this")
                                  .only({"one_cycle"})
                                  .also_called({"div_factor", "div"}));
  fields.add(changes_numbers, of(schedule, &ScheduleConfig::final_divisor, "schedule.final_divisor", number_above(0.0),
                                 "The last step has `optimizer.lr` divided by this")
                                  .only({"one_cycle"})
                                  .also_called({"final_div_factor", "div_final"}));
  fields.add(changes_numbers,
             of(schedule, &ScheduleConfig::momentum, "schedule.momentum", numbers(number_below(0.0, 1.0), 2),
                "Lowest and highest momentum, or first beta of Adam, which goes down while the learning rate goes up, "
                "and back: [0.85, 0.95] is usual")
                 .only({"one_cycle"})
                 .defaults_to("the optimizer's throughout")
                 .also_called({"moms", "cycle_momentum", "momentums", "base_momentum", "max_momentum"}));
}

}  // namespace trainer
