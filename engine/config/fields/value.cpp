#include "engine/config/fields/value.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "engine/bytes.h"
#include "engine/config/text/nearest_word.h"
#include "engine/config/text/number_text.h"
#include "engine/config/text/rewrite.h"
#include "engine/config/text/utf8_text.h"

namespace trainer {
namespace {

constexpr std::size_t longest_text = 4096, most_rewrites = 100;

bool in_range(const Rule& rule, double number) {
  if (number < rule.minimum || (rule.excludes_minimum && number == rule.minimum)) return false;
  return number < rule.maximum || (!rule.excludes_maximum && number == rule.maximum);
}

/// Reads one node by one rule; `report` says what is wrong with it.
class ValueReader {
 public:
  ValueReader(const Rule& rule, std::string_view key, SourceSet& sources) : rule_(rule), key_(key), sources_(sources) {}

  std::optional<Value> read(const Node& node) {
    if (node.is_broken) return std::nullopt;
    if (node.kind == NodeKind::null) return wrong(node, "has no value");
    switch (rule_.kind) {
      case ValueKind::pair:
      case ValueKind::sides:
      case ValueKind::integers:
      case ValueKind::numbers:
        return read_list(node);
      case ValueKind::patterns:
        return read_patterns(node);
      case ValueKind::texts:
        return read_texts(node);
      case ValueKind::choices:
        return read_choices(node);
      case ValueKind::rewrites:
        return read_rewrites(node);
      case ValueKind::form:
        if (node.kind == NodeKind::map) return read_form(node);
        break;
      case ValueKind::group_numbers:
        return read_group_numbers(node);
      default:
        break;
    }
    if (node.kind == NodeKind::map) return wrong(node, "cannot be a map");
    if (node.kind == NodeKind::sequence) return wrong(node, "cannot be a list");
    return read_scalar(node);
  }

 private:
  std::nullopt_t wrong(const Node& node, std::string_view what, std::string expectation = "",
                       std::string suggestion = "") {
    if (expectation.empty()) expectation = expectation_of(rule_);
    const std::string shown = node.kind == NodeKind::scalar ? fmt::format("'{}' ", shortened(node.text)) : "";
    sources_.report(node.mark,
                    shown.empty() ? fmt::format("'{}' {}", key_, what) : fmt::format("'{}': {}{}", key_, shown, what),
                    std::move(expectation), std::move(suggestion));
    return std::nullopt;
  }

  std::nullopt_t out_of_range(const Node& node, double number) {
    if (number > rule_.maximum) return wrong(node, "exceeds " + bound_text(rule_.maximum), whole_expectation_of(rule_));
    if (number < rule_.minimum) return wrong(node, "is below " + bound_text(rule_.minimum));
    return wrong(node, (number == rule_.maximum ? "is not below " : "is not above ") + bound_text(number));
  }

  bool is_word(const std::string& text) const {
    return std::find(rule_.words.begin(), rule_.words.end(), text) != rule_.words.end();
  }

  std::optional<Value> read_scalar(const Node& node) {
    switch (rule_.kind) {
      case ValueKind::boolean:
        return read_boolean(node);
      case ValueKind::integer:
        if (is_word(node.text)) return Value(node.text);
        return read_integer_node(node);
      case ValueKind::number:
        if (const auto number = read_number_node(node)) return Value(*number);
        return std::nullopt;
      case ValueKind::text:
        if (node.text.size() > longest_text) return wrong(node, "is longer than 4096 bytes");
        if (const auto mistake = mistake_in_text(node.text); !mistake.empty())
          return wrong(node, mistake, "text in UTF-8 without control characters");
        return Value(node.text);
      case ValueKind::size:
        return read_size(node);
      case ValueKind::choice:
      case ValueKind::form:
        return read_choice(node);
      case ValueKind::numbered:
        return read_numbered(node);
      case ValueKind::interval:
        return read_interval(node);
      default:
        return std::nullopt;
    }
  }

  std::optional<Value> read_boolean(const Node& node) {
    if (!node.quoted) {
      if (node.text == "true" || node.text == "on") return Value(true);
      if (node.text == "false" || node.text == "off") return Value(false);
      if (node.is_computed && (node.text == "1" || node.text == "0")) return Value(node.text == "1");
      if (node.text == "yes" || node.text == "Yes") return wrong(node, "is text to some YAML readers", "", "true");
      if (node.text == "no" || node.text == "No") return wrong(node, "is text to some YAML readers", "", "false");
    }
    const std::vector<std::string> words{"true", "false", "on", "off"};
    return wrong(node, node.quoted ? "is text because of its quotes" : "is neither true nor false", "",
                 node.quoted ? "" : std::string(nearest(node.text, words)));
  }

  std::optional<std::int64_t> integer_of(const Node& node) {
    if (node.is_broken) return std::nullopt;
    if (node.kind != NodeKind::scalar)
      return wrong(node, node.kind == NodeKind::null ? "has no value" : "is not an integer");
    if (node.quoted) return wrong(node, "is text because of its quotes");
    const auto result = read_integer(node.text);
    if (const auto* mistake = std::get_if<NumberMistake>(&result)) {
      return wrong(node, mistake->message.empty() ? "is not an integer" : mistake->message,
                   mistake->is_too_large ? whole_expectation_of(rule_) : mistake->expectation);
    }
    const std::int64_t number = std::get<std::int64_t>(result);
    if (!in_range(rule_, static_cast<double>(number))) return out_of_range(node, static_cast<double>(number));
    return number;
  }

  std::optional<Value> read_integer_node(const Node& node) {
    if (const auto number = integer_of(node)) return Value(*number);
    return std::nullopt;
  }

  std::optional<double> read_number_node(const Node& node) {
    if (node.is_broken) return std::nullopt;
    if (node.kind != NodeKind::scalar)
      return wrong(node, node.kind == NodeKind::null ? "has no value" : "is not a number");
    if (node.quoted) return wrong(node, "is text because of its quotes");
    const auto result = read_number(node.text);
    if (const auto* mistake = std::get_if<NumberMistake>(&result)) {
      return wrong(node, mistake->message.empty() ? "is not a number" : mistake->message, mistake->expectation);
    }
    const double number = std::get<double>(result);
    if (!in_range(rule_, number)) return out_of_range(node, number);
    return number;
  }

  std::optional<Value> read_size(const Node& node) {
    if (node.text.starts_with('-')) return wrong(node, "is negative");
    const auto as_integer = read_integer(node.text);
    const auto* mistake = std::get_if<NumberMistake>(&as_integer);
    if (mistake != nullptr && !mistake->expectation.empty()) return wrong(node, mistake->message, mistake->expectation);
    const std::optional<std::int64_t> num_bytes = parse_bytes(node.text);
    if (!num_bytes) return wrong(node, "is not a size");
    if (!in_range(rule_, static_cast<double>(*num_bytes))) return out_of_range(node, 0.0);
    return Value(*num_bytes);
  }

  std::optional<Value> read_choice(const Node& node) {
    const std::vector<std::string> names = rule_.choice_names();
    for (const std::string& name : names) {
      if (node.text == name) return Value(name);
    }
    // To YAML 1.1, and to people, false is another word for off.
    if (node.text == "false" && !node.quoted && std::find(names.begin(), names.end(), "off") != names.end()) {
      return Value(std::string("off"));
    }
    if (const std::string meant = choice_called(node.text); !meant.empty())
      return wrong(node, "is not known", "", meant);
    for (const Form& each : rule_.forms) {
      if (each.name == node.text) return wrong(node, "needs a value", "", fmt::format("{{{}: …}}", each.name));
    }
    return wrong(node, "is not known", "", std::string(nearest_but_in_number(node.text, names)));
  }

  /// The choice that other programs call so; "" where there is none.
  std::string choice_called(const std::string& word) const {
    for (const Choice& each : rule_.choices) {
      if (std::find(each.synonyms.begin(), each.synonyms.end(), word) != each.synonyms.end()) return each.name;
    }
    return "";
  }

  std::optional<Value> read_form(const Node& node) {
    if (node.entries.empty()) return wrong(node, "is empty");
    const MapEntry& only = node.entries.front();
    if (node.entries.size() > 1) {
      sources_.report(
          node.entries[1].key_mark,
          fmt::format("'{}' has both '{}' and '{}'", key_, shortened(only.key), shortened(node.entries[1].key)),
          "one of them");
      return std::nullopt;
    }
    for (const Form& each : rule_.forms) {
      if (each.name != only.key) continue;
      const std::string key = fmt::format("{}.{}", key_, each.name);
      const std::optional<Value> value = ValueReader(each.rule, key, sources_).read(only.value);
      if (!value) return std::nullopt;
      if (const auto* number = std::get_if<std::int64_t>(&*value)) return Value(Keyed{each.name, *number});
      return Value(Keyed{each.name, std::get<std::vector<std::string>>(*value)});
    }
    return unknown_form(only);
  }

  std::optional<Value> read_group_numbers(const Node& node) {
    GroupNumbers numbers;
    numbers.location = sources_.location(node.mark);
    if (node.kind == NodeKind::sequence)
      return wrong(node, "cannot be a list", "", node.items.size() == 2 ? "{slice: […]}" : "");
    if (node.kind == NodeKind::scalar) {
      const auto number = read_number_node(node);
      if (!number) return std::nullopt;
      numbers.number = *number;
      return Value(std::move(numbers));
    }
    if (node.entries.empty()) return wrong(node, "is empty");
    std::vector<double> values;
    if (node.entries.size() == 1 && node.entries.front().key == "slice") {
      const Node& slice = node.entries.front().value;
      const bool is_pair = slice.kind == NodeKind::sequence;
      if (is_pair && slice.items.size() != 2)
        return wrong(slice, "has a slice that is no pair", "slice: [1e-5, 1e-3], or slice: 1e-3 for a tenth before it");
      const std::vector<Node> ends = is_pair ? slice.items : std::vector<Node>{slice};
      for (const Node& end : ends) {
        const auto number = read_number_node(end);
        if (!number) return std::nullopt;
        if (*number == 0) return wrong(end, "is no end of a slice, whose numbers are multiples of one another");
        values.push_back(*number);
      }
      numbers.slice = values;
    } else {
      bool holds = true;
      for (const MapEntry& entry : node.entries) {
        const auto number = read_number_node(entry.value);
        holds = holds && number;
        if (!number) continue;
        values.push_back(*number);
        numbers.groups.emplace_back(entry.key, *number);
      }
      if (!holds) return std::nullopt;
    }
    numbers.number = *std::max_element(values.begin(), values.end());
    return Value(std::move(numbers));
  }

  std::nullopt_t unknown_form(const MapEntry& entry) {
    const std::vector<std::string> names = rule_.form_names();
    std::string suggestion(nearest(entry.key, names));
    for (const Form& each : rule_.forms) {
      const auto& words = each.synonyms;
      if (std::find(words.begin(), words.end(), entry.key) != words.end()) suggestion = each.name;
    }
    sources_.report(entry.key_mark, fmt::format("unknown key '{}' in '{}'", shortened(entry.key), key_),
                    expectation_of(rule_), std::move(suggestion));
    return std::nullopt;
  }

  std::optional<Value> read_patterns(const Node& node) {
    if (node.kind == NodeKind::map) return wrong(node, "cannot be a map");
    if (node.kind == NodeKind::scalar) {
      if (is_word(node.text)) return Value(node.text);
      if (is_word("off") && node.text == "false" && !node.quoted) return Value(std::string("off"));
      return wrong(node, "is not a list", "", is_pattern(node.text) ? fmt::format("[{}]", node.text) : "");
    }
    if (node.items.empty()) return wrong(node, "is empty");
    std::vector<std::string> values;
    return read_items(node, values, [this](const Node& item) -> std::optional<std::string> {
      if (item.is_broken) return std::nullopt;
      if (item.kind != NodeKind::scalar) return wrong(item, "holds something that is not a word");
      if (!is_pattern(item.text)) return wrong(item, "names no layer", "letters, digits, '_', '-', '.' and '*'");
      return item.text;
    });
  }

  /// A list that is not empty; else says so, with how the one thing that stands there would be one.
  bool is_list(const Node& node, std::string_view suggestion) {
    if (node.kind == NodeKind::sequence && !node.items.empty()) return true;
    if (node.kind == NodeKind::sequence) {
      wrong(node, "is empty");
    } else {
      wrong(node, "is not a list", "", std::string(suggestion));
    }
    return false;
  }

  /// Text as names and what is made of them are.
  std::optional<std::string> read_text_item(const Node& item) {
    if (item.is_broken) return std::nullopt;
    if (item.kind != NodeKind::scalar) return wrong(item, "holds something that is not text");
    if (item.text.size() > longest_text) return wrong(item, "is longer than 4096 bytes");
    if (const auto mistake = mistake_in_text(item.text); !mistake.empty())
      return wrong(item, mistake, "text in UTF-8 without control characters");
    return item.text;
  }

  std::optional<Value> read_texts(const Node& node) {
    if (node.kind == NodeKind::scalar && rule_.allows_single) {
      std::optional<std::string> only = read_text_item(node);
      return only ? std::optional<Value>(std::vector<std::string>{std::move(*only)}) : std::nullopt;
    }
    if (!is_list(node, node.kind == NodeKind::scalar ? fmt::format("[{}]", shortened(node.text)) : ""))
      return std::nullopt;
    std::vector<std::string> values;
    return read_items(node, values, [this](const Node& item) {
      std::optional<std::string> text = read_text_item(item);
      if (text && text->empty()) return std::optional<std::string>(wrong(item, "is empty"));
      return text;
    });
  }

  std::optional<Value> read_choices(const Node& node) {
    const auto read_one = [this](const Node& item) -> std::optional<std::string> {
      if (item.is_broken) return std::nullopt;
      if (item.kind != NodeKind::scalar) return wrong(item, "holds something that is not a word");
      const std::optional<Value> value = read_choice(item);
      return value ? std::optional(std::get<std::string>(*value)) : std::nullopt;
    };
    if (node.kind == NodeKind::scalar) {
      std::optional<std::string> only = read_one(node);
      return only ? std::optional<Value>(std::vector<std::string>{std::move(*only)}) : std::nullopt;
    }
    if (!is_list(node, "")) return std::nullopt;
    std::vector<std::string> values;
    return read_items(node, values, read_one);
  }

  std::optional<Value> read_rewrites(const Node& node) {
    if (!is_list(node, "")) return std::nullopt;
    if (node.items.size() > most_rewrites)
      return wrong(node, fmt::format("has {} elements", node.items.size()), fmt::format("at most {}", most_rewrites));
    std::vector<TextPair> values;
    return read_items(node, values, [this](const Node& item) -> std::optional<TextPair> {
      if (item.is_broken) return std::nullopt;
      if (item.kind != NodeKind::sequence || item.items.size() != 2)
        return wrong(item, "holds something that is not a list of two");
      const std::optional<std::string> pattern = read_text_item(item.items[0]);
      const std::optional<std::string> replacement = read_text_item(item.items[1]);
      if (!pattern || !replacement) return std::nullopt;
      TextPair pair{*pattern, *replacement};
      RewriteMistake mistake = mistake_in_rewrite(pair);
      if (mistake.message.empty()) return pair;
      sources_.report(item.mark, fmt::format("'{}': {}", key_, mistake.message), std::move(mistake.expectation));
      return std::nullopt;
    });
  }

  static bool is_pattern(std::string_view text) {
    return !text.empty() && text.size() <= longest_text && std::all_of(text.begin(), text.end(), [](unsigned char c) {
      return c < 0x80 && (std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.' || c == '*');
    });
  }

  std::optional<Value> read_numbered(const Node& node) {
    const std::vector<std::string> names = rule_.choice_names();
    if (std::find(names.begin(), names.end(), node.text) != names.end()) return Value(node.text);
    if (const std::string prefix = names.back() + ":"; node.text.starts_with(prefix)) {
      if (node.text.find(',') != std::string::npos) return wrong(node, "names several devices; trainer trains on one");
      const auto index = read_integer(std::string_view(node.text).substr(prefix.size()));
      const auto* number = std::get_if<std::int64_t>(&index);
      if (number != nullptr && *number >= 0 && *number < 1024) return Value(node.text);
      return wrong(node, "has no valid device number");
    }
    const std::string meant = choice_called(node.text);
    return wrong(node, "is not a device", "", meant.empty() ? std::string(nearest(node.text, names)) : meant);
  }

  std::optional<Value> read_interval(const Node& node) {
    std::string_view digits = node.text;
    Interval result;
    if (digits.ends_with("ep")) {
      result.in_epochs = true;
      digits.remove_suffix(2);
    }
    const auto count = read_integer(digits);
    if (const auto* mistake = std::get_if<NumberMistake>(&count)) {
      return wrong(node, mistake->message.empty() ? "is not a number of steps or epochs" : mistake->message,
                   mistake->expectation);
    }
    result.count = std::get<std::int64_t>(count);
    if (!in_range(rule_, static_cast<double>(result.count)))
      return out_of_range(node, static_cast<double>(result.count));
    return Value(result);
  }

  std::optional<Value> read_list(const Node& node) {
    if (node.kind == NodeKind::map) return wrong(node, "cannot be a map");
    if (node.kind == NodeKind::scalar) return read_single(node);
    if (rule_.kind == ValueKind::pair) return read_pair(node);
    if (rule_.kind == ValueKind::sides) return read_sides(node);
    if (rule_.num_elements != 0 && node.items.size() != rule_.num_elements) {
      return wrong(node, fmt::format("has {} element{}", node.items.size(), node.items.size() == 1 ? "" : "s"));
    }
    if (node.items.empty()) return wrong(node, "is empty");
    if (rule_.kind == ValueKind::integers) {
      std::vector<std::int64_t> values;
      return read_items(node, values, [this](const Node& item) { return integer_of(item); });
    }
    std::vector<double> values;
    return read_items(node, values, [this](const Node& item) { return read_number_node(item); });
  }

  template <class Element, class Read>
  std::optional<Value> read_items(const Node& node, std::vector<Element>& values, const Read& read_item) {
    bool holds = true;
    for (const Node& item : node.items) {
      const std::optional<Element> value = read_item(item);
      holds = holds && value.has_value();
      if (value) values.push_back(*value);
    }
    return holds ? std::optional<Value>(std::move(values)) : std::nullopt;
  }

  std::optional<Value> read_single(const Node& node) {
    if (rule_.kind == ValueKind::pair) {
      if (const auto both = integer_of(node)) return Value(Pair{*both, *both});
      return std::nullopt;
    }
    if (rule_.kind == ValueKind::sides) {
      if (const auto all = integer_of(node)) return Value(Sides{*all, *all, *all, *all});
      return std::nullopt;
    }
    if (!rule_.allows_single) return wrong(node, "is not a list");
    if (rule_.kind == ValueKind::integers) {
      if (const auto only = integer_of(node)) return Value(std::vector<std::int64_t>{*only});
      return std::nullopt;
    }
    if (const auto number = read_number_node(node)) return Value(std::vector<double>{*number});
    return std::nullopt;
  }

  std::optional<Value> read_pair(const Node& node) {
    if (node.items.size() != 2) {
      return wrong(node, fmt::format("has {} element{}", node.items.size(), node.items.size() == 1 ? "" : "s"));
    }
    const auto height = integer_of(node.items[0]);
    const auto width = integer_of(node.items[1]);
    if (!height || !width) return std::nullopt;
    return Value(Pair{*height, *width});
  }

  std::optional<Value> read_sides(const Node& node) {
    if (node.items.size() != 2 && node.items.size() != 4) {
      return wrong(node, fmt::format("has {} element{}", node.items.size(), node.items.size() == 1 ? "" : "s"));
    }
    std::vector<std::int64_t> given;
    for (const Node& item : node.items)
      if (const auto number = integer_of(item)) given.push_back(*number);
    if (given.size() != node.items.size()) return std::nullopt;
    if (given.size() == 2) return Value(Sides{given[0], given[0], given[1], given[1]});
    return Value(Sides{given[0], given[1], given[2], given[3]});
  }

  const Rule& rule_;
  std::string_view key_;
  SourceSet& sources_;
};

Node scalar(std::string text, bool is_text) {
  Node node;
  node.kind = NodeKind::scalar;
  node.text = std::move(text);
  node.quoted = is_text;
  return node;
}

template <class List, class ToText>
Node sequence(const List& list, const ToText& to_text) {
  Node node;
  node.kind = NodeKind::sequence;
  for (const auto& item : list) node.items.push_back(scalar(to_text(item), false));
  return node;
}

struct NodeOf {
  Node operator()(std::monostate) const { return {}; }
  Node operator()(bool value) const { return scalar(value ? "true" : "false", false); }
  Node operator()(std::int64_t value) const { return scalar(fmt::format("{}", value), false); }
  Node operator()(double value) const { return scalar(number_text(value), false); }
  Node operator()(const std::string& value) const { return scalar(value, true); }
  Node operator()(const Interval& value) const {
    return scalar(fmt::format("{}{}", value.count, value.in_epochs ? "ep" : ""), value.in_epochs);
  }
  Node operator()(const Pair& value) const {
    if (value[0] == value[1]) return (*this)(value[0]);
    return sequence(value, [](std::int64_t item) { return fmt::format("{}", item); });
  }
  Node operator()(const Sides& value) const {
    const bool is_even = value[0] == value[1] && value[2] == value[3];
    if (is_even) return (*this)(Pair{value[0], value[2]});
    return sequence(value, [](std::int64_t item) { return fmt::format("{}", item); });
  }
  Node operator()(const std::vector<std::int64_t>& value) const {
    return sequence(value, [](std::int64_t item) { return fmt::format("{}", item); });
  }
  Node operator()(const std::vector<double>& value) const { return sequence(value, number_text); }
  Node operator()(const std::vector<std::string>& value) const {
    Node node = sequence(value, [](const std::string& item) { return item; });
    for (Node& item : node.items) item.quoted = true;
    return node;
  }
  Node operator()(const std::vector<TextPair>& value) const {
    Node node;
    node.kind = NodeKind::sequence;
    for (const TextPair& pair : value)
      node.items.push_back((*this)(std::vector<std::string>(pair.begin(), pair.end())));
    return node;
  }
  Node operator()(const GroupNumbers& value) const {
    if (value.is_same_for_all()) return (*this)(value.number);
    Node node;
    node.kind = NodeKind::map;
    if (value.slice.size() == 1) node.entries.push_back({"slice", {}, (*this)(value.slice.front())});
    if (value.slice.size() == 2) node.entries.push_back({"slice", {}, (*this)(value.slice)});
    for (const auto& [group, number] : value.groups) node.entries.push_back({group, {}, (*this)(number)});
    return node;
  }
  Node operator()(const Keyed& value) const {
    Node node;
    node.kind = NodeKind::map;
    node.entries.push_back({value.key, {}, std::visit(*this, value.value)});
    return node;
  }
};

}  // namespace

std::optional<Value> read_value(const Node& node, const Rule& rule, std::string_view key, SourceSet& sources) {
  return ValueReader(rule, key, sources).read(node);
}

Node node_of(const Value& value) { return std::visit(NodeOf{}, value); }

}  // namespace trainer
