#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/experiment.h"

namespace trainer {

/// Reads, validates and resolves an experiment. `overrides` are command-line arguments "dotted.key=value" with the
/// value in YAML; a list is addressed by index: "model.layers.1.repeat.times=5". An override replaces the whole value
/// of its key; `key=null` takes a key back to its default.
///
/// Throws ConfigError whose what() holds every mistake found, located (see diagnostic.h). Work and memory are bounded
/// for any input: see Note [Hostile configurations] in yaml_tree.h.
Experiment load_experiment(const std::string& path, const std::vector<std::string>& overrides = {});

/// The same for text at hand; `file_name` is what diagnostics say and what `extends:` is relative to.
Experiment parse_experiment(std::string_view text, const std::string& file_name,
                            const std::vector<std::string>& overrides = {});

/// The same configuration with one more override, of a stage where it is one. Throws ConfigError as above; `experiment`
/// was read.
Experiment read_again(const Experiment& experiment, const std::string& override_text);

/// model.maps of what resolved_json() wrote, without their places, whatever else of it holds no more.
std::vector<NameMap> maps_of_resolved(const std::string& json);

/// Every key that applies, with its value, as YAML; parsing it again gives the same experiment. Written from the
/// struct's fields, so it also holds for an experiment that was changed after it was loaded.
std::string resolved_yaml(const Experiment& experiment);

/// The same of some keys alone: "name", "data.normalize.mean".
std::string resolved_yaml(const Experiment& experiment, const std::function<bool(std::string_view key)>& is_wanted);

/// The same as one JSON object, indented by `indent` spaces, or on one line where it is negative.
std::string resolved_json(const Experiment& experiment, int indent = -1);

}  // namespace trainer
