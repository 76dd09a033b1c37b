#include "engine/config/text/json_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/config/text/utf8_text.h"

namespace trainer {
namespace {

/// How deep lists and objects are nested, whether or not the text is JSON.
int nesting_of(std::string_view text) {
  int depth = 0, deepest = 0;
  bool is_quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char letter = text[i];
    if (is_quoted && letter == '\\') ++i;
    if (letter == '"') is_quoted = !is_quoted;
    if (is_quoted) continue;
    if (letter == '[' || letter == '{') deepest = std::max(deepest, ++depth);
    if (letter == ']' || letter == '}') --depth;
    if (deepest > deepest_json) break;
  }
  return deepest;
}

std::string integers_text(std::int64_t least, std::int64_t most) {
  if (most == std::numeric_limits<std::int64_t>::max()) return fmt::format("an integer of at least {}", least);
  return fmt::format("an integer from {} to {}", least, most);
}

std::string numbers_text(double least, double most) {
  if (most < std::numeric_limits<double>::max()) return fmt::format("a number from {} to {}", least, most);
  return least > std::numeric_limits<double>::lowest() ? fmt::format("a number of at least {}", least) : "a number";
}

}  // namespace

template <class Json>
std::optional<Json> parse_json(std::string_view text) {
  if (nesting_of(text) > deepest_json) return std::nullopt;
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return std::nullopt;
  return json;
}

template <class Json>
JsonInput<Json> JsonInput<Json>::at(std::string_view name) const {
  if (std::optional<JsonInput> found = find(name)) return *std::move(found);
  throw JsonMistake(fmt::format("'{}{}{}' is missing", key_, key_.empty() ? "" : ".", name));
}

template <class Json>
std::optional<JsonInput<Json>> JsonInput<Json>::find(std::string_view name) const {
  const Json& map = object();
  const auto found = map.find(name);
  if (found == map.end()) return std::nullopt;
  return JsonInput(*found, fmt::format("{}{}{}", key_, key_.empty() ? "" : ".", name));
}

template <class Json>
std::vector<JsonInput<Json>> JsonInput<Json>::items() const {
  if (!value_->is_array()) refuse("a list");
  std::vector<JsonInput> all;
  for (const Json& value : *value_) all.emplace_back(value, fmt::format("{}.{}", key_, all.size()));
  return all;
}

template <class Json>
bool JsonInput<Json>::is_null() const {
  return value_->is_null();
}

template <class Json>
bool JsonInput<Json>::boolean() const {
  if (!value_->is_boolean()) refuse("true or false");
  return value_->template get<bool>();
}

template <class Json>
std::int64_t JsonInput<Json>::integer(std::int64_t least, std::int64_t most) const {
  constexpr auto largest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const bool holds =
      value_->is_number_unsigned() ? value_->template get<std::uint64_t>() <= largest : value_->is_number_integer();
  if (!holds) refuse(integers_text(least, most));
  const auto number = value_->template get<std::int64_t>();
  if (number < least || number > most) refuse(integers_text(least, most));
  return number;
}

template <class Json>
double JsonInput<Json>::number(double least, double most) const {
  if (!value_->is_number()) refuse(numbers_text(least, most));
  const auto number = value_->template get<double>();
  if (!(number >= least && number <= most)) refuse(numbers_text(least, most));
  return number;
}

template <class Json>
const std::string& JsonInput<Json>::text() const {
  if (!value_->is_string()) refuse("text");
  const auto& text = value_->template get_ref<const std::string&>();
  // Lines are kept: a message can have several.
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    if (!mistake_in_text(std::string_view(text).substr(begin, end - begin)).empty())
      refuse("text without control characters");
    begin = end + 1;
  }
  return text;
}

template <class Json>
const Json& JsonInput<Json>::object() const {
  if (!value_->is_object()) refuse("an object");
  return *value_;
}

template <class Json>
const Json& JsonInput<Json>::scalar() const {
  if (value_->is_string()) text();
  if (!value_->is_number() && !value_->is_string() && !value_->is_boolean()) refuse("a number, text, true or false");
  return *value_;
}

template <class Json>
void JsonInput<Json>::refuse(const std::string& expected) const {
  constexpr std::size_t most_shown = 60;
  const std::string shown = shortened(value_->dump(-1, ' ', false, Json::error_handler_t::replace), most_shown);
  if (key_.empty()) throw JsonMistake(fmt::format("it is {}, where {} belongs", shown, expected));
  throw JsonMistake(fmt::format("'{}' is {}, where {} belongs", key_, shown, expected));
}

template std::optional<nlohmann::json> parse_json(std::string_view text);
template std::optional<nlohmann::ordered_json> parse_json(std::string_view text);
template class JsonInput<nlohmann::json>;
template class JsonInput<nlohmann::ordered_json>;

}  // namespace trainer
