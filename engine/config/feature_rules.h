#pragma once

#include <string>

#include "engine/config/experiment.h"
#include "engine/config/fields/given_keys.h"
#include "engine/config/yaml/source_set.h"

namespace trainer {

// What a loss on features (`type: feature`) is read from; its keys stand under `prefix`, "loss." or "".

/// Reports what its keys need of each other.
void check_feature(const FeatureConfig& feature, const GivenKeys& given, const std::string& prefix, SourceSet& sources);

/// Notes where those keys stand that a later stage may refuse.
void locate_feature_keys(FeatureConfig& feature, const GivenKeys& given, const std::string& prefix,
                         const SourceSet& sources);

}  // namespace trainer
