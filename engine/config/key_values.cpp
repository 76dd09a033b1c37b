#include "engine/config/key_values.h"

#include "engine/config/fields/experiment_fields.h"
#include "engine/errors.h"

namespace trainer {
namespace {

const ExperimentField& field_with_value(std::string_view key) {
  const ExperimentField* const field = find_field(key);
  require_internal(field != nullptr && field->get, "values are read of keys that have one");
  return *field;
}

}  // namespace

bool has_same_value(std::string_view key, const Experiment& a, const Experiment& b) {
  const ExperimentField& field = field_with_value(key);
  return field.get(a) == field.get(b);
}

void copy_value(std::string_view key, const Experiment& from, Experiment& to) {
  const ExperimentField& field = field_with_value(key);
  field.set(to, field.get(from));
}

}  // namespace trainer
