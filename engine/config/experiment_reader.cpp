#include "engine/config/experiment_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/config/experiment_fields.h"
#include "engine/config/field_reader.h"

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
  std::string type_of(std::string_view key) const {
    const ExperimentField* type = find_field(fmt::format("{}.type", key.substr(0, key.find('.'))));
    return type == nullptr ? "" : std::get<std::string>(type->get(experiment_));
  }

  bool is_type_broken(std::string_view key) const {
    return given_.broken.contains(fmt::format("{}.type", key.substr(0, key.find('.'))));
  }

  void fill_type_defaults() {
    for (const ExperimentField& field : experiment_fields()) {
      if (field.type_defaults.empty() || given_.has(field.key)) continue;
      const std::string type = type_of(field.key);
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
      if (field.only_for.empty() || !given_.has(field.key) || is_type_broken(field.key)) continue;
      const std::string type = type_of(field.key);
      if (field.applies_to(type)) continue;
      sources_.report(
          given_.mark(field.key), fmt::format("'{}' does not apply to '{}'", field.key, type),
          fmt::format("only with type {}; remove it, or set {}=null", fmt::join(field.only_for, ", "), field.key));
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
