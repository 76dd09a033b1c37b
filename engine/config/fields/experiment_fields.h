#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/config/experiment.h"
#include "engine/config/fields/field_table.h"

namespace trainer {

using ExperimentField = Field<Experiment>;

/// A map of the configuration.
struct Section {
  std::string key;  ///< dotted; "" is the whole file
  std::string help;
  bool has_type = false;     ///< `type` may be written alone: `device: cpu`
  bool type_is_key = false;  ///< and as a one-key map: `loss: {cross_entropy: {label_smoothing: 0.1}}`
};

/// Every key outside the layers, section by section, in the order of `config show`.
const std::vector<ExperimentField>& experiment_fields();
const std::vector<Section>& sections();

const ExperimentField* find_field(std::string_view key);
const Section* find_section(std::string_view key);

/// Names of the keys directly in a section, in order: fields and sections.
std::vector<std::string> keys_of_section(std::string_view section);

}  // namespace trainer
