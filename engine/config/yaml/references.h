#pragma once

#include "engine/config/yaml/source_set.h"

namespace trainer {

/// Replaces `${env:NAME}` by an environment variable and `${dotted.key}` by the value of a key, wherever they stand in
/// a scalar; a key that is not given has its default. `$${` stands for `${`. Reports variables that are not set, keys
/// that do not exist or hold no single value, and references that lead back to themselves.
void resolve_references(Node& root, SourceSet& sources);

/// The text that reads back as `text`: with `${` written as `$${`.
std::string escape_references(std::string_view text);

}  // namespace trainer
