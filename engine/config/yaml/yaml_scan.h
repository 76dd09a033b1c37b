#pragma once

#include "engine/config/yaml/source_set.h"

namespace trainer {

/// Limits of one configuration text.
inline constexpr std::size_t most_text_bytes = std::size_t{1} << 20;
inline constexpr int deepest_nesting = 64;

/// Looks over the text of `source` before the YAML library may see it, and reports what that library would accept
/// silently, report in the wrong place, or take very long over: binary data, tabs as indentation, brackets and quotes
/// that are not closed, nesting beyond `deepest_nesting`, and the parts of YAML that a configuration has no use for
/// (directives, block text, complex keys). False where the text must not be parsed.
bool scan_yaml(SourceSet& sources, int source, std::string_view text, int num_skipped_bytes = 0);

}  // namespace trainer
