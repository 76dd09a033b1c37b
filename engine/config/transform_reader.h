#pragma once

#include <string>
#include <vector>

#include "engine/config/transform_spec.h"
#include "engine/config/yaml/source_set.h"

namespace trainer {

/// Transforms of one list.
inline constexpr std::size_t most_transforms = 32;

/// Reads a list of transforms by the tables in fields/transform_fields.h; `key` is what messages call the list. Those
/// of batches end it, one of each kind, and are of training alone.
std::vector<TransformSpec> read_transforms(const Node& node, const std::string& key, bool of_training,
                                           SourceSet& sources);

/// The list that read_transforms() reads back to the same transforms; null for none.
Node node_of_transforms(const std::vector<TransformSpec>& transforms);

}  // namespace trainer
