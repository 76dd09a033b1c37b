#include "engine/config/experiment_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/config/fields/experiment_fields.h"
#include "engine/config/fields/field_reader.h"

namespace trainer {
namespace {

class ExperimentReader {
 public:
  ExperimentReader(Experiment& experiment, SourceSet& sources) : experiment_(experiment), sources_(sources) {}

  ExperimentKeys read(const Node& root) {
    static_cast<GivenKeys&>(given_) = FieldReader(experiment_fields(), experiment_, sources_).read(root);
    const Node* schedule = root.find("schedule");
    const Node* type = schedule == nullptr ? nullptr : schedule->find("type");
    given_.names_warmup = type != nullptr && type->text == "warmup";
    fill_type_defaults();
    check_types();
    return std::move(given_);
  }

 private:
  std::string type_of(const ExperimentField& field) const {
    const ExperimentField* type = find_field(field.deciding_key());
    return type == nullptr ? "" : std::get<std::string>(type->get(experiment_));
  }

  void fill_type_defaults() {
    for (const ExperimentField& field : experiment_fields()) {
      if (field.type_defaults.empty() || given_.has(field.key)) continue;
      const std::string type = type_of(field);
      for (const auto& [each, text] : field.type_defaults) {
        Node node;
        node.kind = NodeKind::scalar;
        node.text = text;
        if (each == type) field.set(experiment_, *read_value(node, field.rule, field.key, sources_));
      }
    }
  }

  void check_types() {
    for (const ExperimentField& field : experiment_fields()) {
      if (field.only_for.empty() || !given_.has(field.key) || given_.broken.contains(field.deciding_key())) continue;
      const std::string type = type_of(field);
      if (field.applies_to(type)) continue;
      sources_.report(given_.mark(field.key),
                      field.decided_by.empty()
                          ? fmt::format("'{}' does not apply to '{}'", field.key, type)
                          : fmt::format("'{}' does not apply to '{}: {}'", field.key, field.decided_by, type),
                      fmt::format("only with {} {}; remove it, or set {}=null",
                                  field.decided_by.empty() ? "type" : field.decided_by, fmt::join(field.only_for, ", "),
                                  field.key));
      given_.broken.insert(field.key);
    }
  }

  Experiment& experiment_;
  SourceSet& sources_;
  ExperimentKeys given_;
};

}  // namespace

ExperimentKeys read_experiment(const Node& root, Experiment& experiment, SourceSet& sources) {
  return ExperimentReader(experiment, sources).read(root);
}

}  // namespace trainer
