#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/config/fields/experiment_fields.h"

namespace trainer {

/// The parts that experiment_fields() is put together from, one for each group of sections.
using Fields = std::vector<ExperimentField>;

/// The field of a member of the experiment.
template <class Member>
ExperimentField of(Member Experiment::*member, const std::string& key, Rule rule, const std::string& help) {
  const auto access = [member](auto& experiment) -> auto& { return experiment.*member; };
  return field<Experiment>(key, access, std::move(rule), help);
}

/// The field of a member of one of its parts.
template <class Part, class Member>
ExperimentField of(Part Experiment::*part, Member Part::*member, const std::string& key, Rule rule,
                   const std::string& help) {
  const auto access = [ part, member ](auto& experiment) -> auto& { return experiment.*part.*member; };
  return field<Experiment>(key, access, std::move(rule), help);
}

/// A number of steps, or of epochs.
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

void add_device_fields(Fields& fields);
void add_memory_fields(Fields& fields);
void add_data_fields(Fields& fields);
void add_model_fields(Fields& fields);
void add_optimizer_fields(Fields& fields);
void add_schedule_fields(Fields& fields);
void add_train_fields(Fields& fields);
void add_checkpoint_fields(Fields& fields);

}  // namespace trainer
