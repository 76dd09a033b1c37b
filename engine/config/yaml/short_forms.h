#pragma once

#include "engine/config/yaml/config_node.h"

namespace trainer {

/// Writes out what a configuration may say in short, so that everything after sees one form: `device: cpu` becomes
/// `device: {type: cpu}`, and `loss: {cross_entropy: {label_smoothing: 0.1}}` becomes
/// `loss: {type: cross_entropy, label_smoothing: 0.1}`.
void expand_short_forms(Node& root);

}  // namespace trainer
