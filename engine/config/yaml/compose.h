#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/experiment.h"
#include "engine/config/stage_reader.h"
#include "engine/config/yaml/source_set.h"

namespace trainer {

/// Reads a file for a configuration: at most 1 MiB of it. Throws ConfigError where it cannot be read.
std::string read_config_file(const std::string& path);

/// The keys of one file's text, as they stand there. Throws where it cannot be parsed or holds no keys: `if_empty` says
/// what it needs at least, `example` is one key with its value.
Node parse_keys(SourceSet& sources, std::string_view text, const std::string& file_name, const std::string& if_empty,
                const std::string& example);

struct ComposedConfig {
  Node root;                                         ///< of `stages` with those that predict alone
  std::set<std::string, std::less<>> computed_from;  ///< Experiment::computed_from
  std::vector<IntegerParameter> model_parameters;    ///< Experiment::model_parameters
};

/// What a configuration is made of, as far as it can be put together before what is written in short, or refers to
/// other keys, is resolved.
struct MergedConfig {
  Node root;  ///< of `stages` with those that predict alone
  std::vector<StageNode> stages;
  std::string file_name;
  std::vector<std::string> late_overrides;  ///< that reach into layers
};

/// Makes one tree of a text, the files it extends and the overrides. Throws where a text cannot be parsed; other
/// mistakes are only reported to `sources`.
MergedConfig merge_config(SourceSet& sources, std::string_view text, const std::string& file_name,
                          const std::vector<std::string>& overrides);
/// Resolves the references in `root`, which is that of `merged`, perhaps with keys of stages. The model is written out
/// (Note [Models written out] in engine/config/model/model_expansion.h), and so is what was said in short. `name` and
/// `output` are filled in where absent. Reports mistakes.
ComposedConfig compose_tree(SourceSet& sources, const MergedConfig& merged, Node root);

}  // namespace trainer
