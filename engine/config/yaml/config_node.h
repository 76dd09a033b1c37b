#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trainer {

/// Where a node was written: an index into SourceSet, 1-based line and column in code points, width of the span.
struct Mark {
  int source = 0;
  int line = 1;
  int column = 1;
  int length = 1;
  int use = 0;  ///< of the block or the file that it stands in: what SourceSet::add_use() gave; 0: none
};

enum class NodeKind : std::uint8_t { null, scalar, map, sequence };

struct MapEntry;

/// A value as it was written, before it has a type. Scalars keep their text: what `no` or `010` is, the field that
/// reads it decides.
struct Node {
  NodeKind kind = NodeKind::null;
  bool quoted = false;       ///< scalar: written in quotes (or made from a string), so it is text and nothing else
  bool absent = false;       ///< null: nothing was written after the key, as opposed to `null` or `~`
  bool is_broken = false;    ///< a reference in it cannot be resolved, which was reported
  bool is_resolved = false;  ///< its references were looked at
  bool is_computed = false;  ///< scalar: the result of an expression, so that 1 and 0 are also true and false
  Mark mark;
  std::string text;
  std::vector<MapEntry> entries;  ///< in the order written
  std::vector<Node> items;

  Node* find(std::string_view key);
  const Node* find(std::string_view key) const;
};

struct MapEntry {
  std::string key;
  Mark key_mark;
  Node value;
};

inline const Node* Node::find(std::string_view key) const {
  const auto entry = std::find_if(entries.begin(), entries.end(), [&](const MapEntry& e) { return e.key == key; });
  return entry == entries.end() ? nullptr : &entry->value;
}
inline Node* Node::find(std::string_view key) { return const_cast<Node*>(std::as_const(*this).find(key)); }

}  // namespace trainer
