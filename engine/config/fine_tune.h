#pragma once

#include "engine/config/yaml/source_set.h"

namespace trainer {

/// Writes out what `stages` has of `fine_tune`, so that overrides reach the stages by position. Reports what is wrong.
void expand_fine_tune(Node& root, SourceSet& sources);

}  // namespace trainer
