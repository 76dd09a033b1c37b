#include "engine/config/yaml/node_text.h"

#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "engine/config/text/json_output.h"
#include "engine/config/text/number_text.h"
#include "engine/config/yaml/references.h"

namespace trainer {
namespace {

constexpr std::size_t widest_text_line = 110;

/// Whether YAML 1.1 and 1.2 readers both take the bare word for text.
bool is_plain_word(std::string_view text) {
  constexpr std::array<std::string_view, 11> not_text{"null", "true", "false", "yes", "no", "on",
                                                      "off",  "y",    "n",     "nan", "inf"};
  if (text.empty() || (std::isalpha(static_cast<unsigned char>(text[0])) == 0 && text[0] != '_')) return false;
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  if (std::find(not_text.begin(), not_text.end(), lower) != not_text.end()) return false;
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return c < 0x80 && (std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.' || c == '/');
  });
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char letter : text) {
    const auto code = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') {
      result += '\\';
      result += letter;
    } else if (letter == '\t') {
      result += "\\t";
    } else if (letter == '\n') {
      result += "\\n";
    } else if (code < 0x20 || code == 0x7F) {
      result += fmt::format("\\x{:02x}", code);
    } else {
      result += letter;
    }
  }
  return result + '"';
}

std::string scalar_text(const Node& node) {
  if (node.kind == NodeKind::null) return "null";
  if (!node.quoted) return node.text;
  return is_plain_word(node.text) ? node.text : quoted(escape_references(node.text));
}

/// Keys of sections are plain words; those that people name, such as columns, may be anything.
std::string key_text(const std::string& key) { return is_plain_word(key) ? key : quoted(key); }

std::string flow(const Node& node) {
  std::string result;
  switch (node.kind) {
    case NodeKind::null:
    case NodeKind::scalar:
      return scalar_text(node);
    case NodeKind::sequence:
      for (const Node& item : node.items) result += (result.empty() ? "" : ", ") + flow(item);
      return "[" + result + "]";
    case NodeKind::map:
      for (const MapEntry& entry : node.entries) {
        result += (result.empty() ? "" : ", ") + key_text(entry.key) + ": " + flow(entry.value);
      }
      return "{" + result + "}";
  }
  return result;
}

/// A list of numbers, or a map of scalars and such lists: reads well on one line. Words in a list are layers.
bool is_flat(const Node& node) {
  if (node.kind == NodeKind::sequence) {
    return std::all_of(node.items.begin(), node.items.end(),
                       [](const Node& item) { return item.kind == NodeKind::scalar && !item.quoted; });
  }
  return std::all_of(node.entries.begin(), node.entries.end(),
                     [](const MapEntry& entry) { return entry.value.kind != NodeKind::map && is_flat(entry.value); });
}

class YamlWriter {
 public:
  std::string write(const Node& root) {
    write_map(root, 0, 0);
    return std::move(text_);
  }

 private:
  /// The first key stands where the line already is (after "- "), the others `indent` deep.
  void write_map(const Node& map, std::size_t indent, std::size_t depth) {
    bool is_first = true;
    for (const MapEntry& entry : map.entries) {
      if (!is_first || text_.empty() || text_.back() == '\n') text_.append(indent, ' ');
      is_first = false;
      text_ += key_text(entry.key) + ":";
      write_value(entry.value, indent, depth);
    }
  }

  void write_value(const Node& value, std::size_t indent, std::size_t depth) {
    const bool is_section = depth == 0 && value.kind == NodeKind::map;
    if (is_flat(value) && !is_section) {
      const std::string line = flow(value);
      if (value.kind != NodeKind::map || indent + line.size() < widest_text_line) {
        text_ += " " + line + "\n";
        return;
      }
    }
    text_ += "\n";
    if (value.kind == NodeKind::map) {
      write_map(value, indent + 2, depth + 1);
      return;
    }
    for (const Node& item : value.items) {
      text_.append(indent + 2, ' ');
      text_ += "- ";
      if (item.kind != NodeKind::map) {
        text_ += flow(item) + "\n";
      } else {
        write_map(item, indent + 4, depth + 1);
      }
    }
  }

  std::string text_;
};

nlohmann::ordered_json json_of(const Node& node) {
  switch (node.kind) {
    case NodeKind::null:
      return nullptr;
    case NodeKind::sequence: {
      auto list = nlohmann::ordered_json::array();
      for (const Node& item : node.items) list.push_back(json_of(item));
      return list;
    }
    case NodeKind::map: {
      auto object = nlohmann::ordered_json::object();
      for (const MapEntry& entry : node.entries) object[entry.key] = json_of(entry.value);
      return object;
    }
    case NodeKind::scalar:
      break;
  }
  if (node.quoted) return node.text;
  if (node.text == "true" || node.text == "false") return node.text == "true";
  const auto as_integer = read_integer(node.text);
  if (const auto* integer = std::get_if<std::int64_t>(&as_integer)) return *integer;
  const auto as_number = read_number(node.text);
  if (const auto* number = std::get_if<double>(&as_number)) return *number;
  return node.text;
}

}  // namespace

std::string flow_text(const Node& value) { return flow(value); }

std::string yaml_text(const Node& root) { return YamlWriter().write(root); }

std::string json_text(const Node& root, int indent) { return json_text(json_of(root), indent); }

}  // namespace trainer
