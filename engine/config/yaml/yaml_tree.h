#pragma once

#include <optional>
#include <string_view>

#include "engine/config/yaml/source_set.h"

namespace trainer {

/// Note [Hostile configurations]
/// Any text gets an answer within a second and bounded memory. A file is read up to 1 MiB. scan_yaml() refuses what
/// is binary, unbalanced or nested more than 64 deep before the YAML library sees it; the tree builder below counts
/// nodes and text while the library's events arrive and stops at 100,000 nodes or 4 MiB of text, so that aliases
/// cannot multiply; a map holds at most 1,000 keys, so that looking one up in turn stays cheap; `extends` goes 16 files
/// deep; a reference expands to at most 4,096 bytes; `repeat` to at most 100,000 layers; reading stops at 200 mistakes,
/// of which 20 are shown.

inline constexpr std::size_t most_nodes = 100'000;
inline constexpr std::size_t most_scalar_bytes = std::size_t{4} << 20;
inline constexpr std::size_t most_keys = 1'000;

/// Reads the one YAML document of a source. The text is that of `source`, from byte `skipped` of its first line
/// (the value of an argument). Reports duplicate keys, merges, tags, undefined or endless aliases, further documents
/// and text over several lines. Nothing comes back where the text cannot be read at all; that is reported too.
std::optional<Node> parse_yaml(SourceSet& sources, int source, std::string_view text, int skipped = 0);

}  // namespace trainer
