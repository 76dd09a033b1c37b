#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/config/fields/experiment_fields.h"

namespace trainer {

/// The parts that experiment_fields() is put together from, one for each group of sections.
class Fields {
 public:
  void add(ResumeEffect on_resume, ExperimentField field) {
    field.on_resume = on_resume;
    all_.push_back(std::move(field));
  }
  std::vector<ExperimentField> all() && { return std::move(all_); }

 private:
  std::vector<ExperimentField> all_;
};

/// The field of a member of the experiment.
template <class Member, class MemberRule>
ExperimentField of(Member Experiment::*member, const std::string& key, MemberRule rule, const std::string& help) {
  const auto access = [member](auto& experiment) -> auto& { return experiment.*member; };
  return field<Experiment>(key, access, std::move(rule), help);
}

/// The field of a member of one of its parts.
template <class Part, class Member, class MemberRule>
ExperimentField of(Part Experiment::*part, Member Part::*member, const std::string& key, MemberRule rule,
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
void add_loss_fields(Fields& fields);
void add_weights_fields(Fields& fields);
void add_optimizer_fields(Fields& fields);
void add_schedule_fields(Fields& fields);
void add_average_fields(Fields& fields);
void add_train_fields(Fields& fields);
void add_checkpoint_fields(Fields& fields);
void add_logging_fields(Fields& fields);
void add_parallel_fields(Fields& fields);

}  // namespace trainer
