#include "tests/described_events/described_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/errors.h"
#include "engine/report/run/event_json.h"

namespace trainer {

namespace {

using SchemaJson = nlohmann::json;

class EventSchema {
 public:
  EventSchema() {
    std::ifstream file(TRAINER_SOURCE_DIR "/configs/events.schema.json");
    schema_ = SchemaJson::parse(file);
  }

  std::string problem_of(const SchemaJson& event) const {
    if (!event.is_object() || !event.contains("event") || !event["event"].is_string()) return "it has no name";
    std::string first;
    for (const SchemaJson& reference : schema_["oneOf"]) {
      const SchemaJson& described = schema_["$defs"].at(referred(reference.at("$ref")));
      if (described["properties"]["event"]["const"] != event["event"]) continue;
      const std::string found = problem(event, described, event["event"].get<std::string>());
      if (found.empty()) return "";
      if (first.empty()) first = found;
    }
    return first.empty() ? fmt::format("no event is called {}", event["event"].dump()) : first;
  }

 private:
  static std::string referred(const std::string& reference) { return reference.substr(std::string("#/$defs/").size()); }

  static bool is_of_type(const SchemaJson& value, const std::string& type) {
    if (type == "object") return value.is_object();
    if (type == "array") return value.is_array();
    if (type == "string") return value.is_string();
    if (type == "boolean") return value.is_boolean();
    if (type == "null") return value.is_null();
    if (type == "number") return value.is_number();
    if (type == "integer")
      return value.is_number_integer() || (value.is_number_float() && std::floor(value.get<double>()) == value);
    throw InternalError("the schema of events has a type that tests do not know: " + type);
  }

  static bool is_of_any(const SchemaJson& value, const SchemaJson& types) {
    if (types.is_string()) return is_of_type(value, types);
    return std::any_of(types.begin(), types.end(), [&](const SchemaJson& type) { return is_of_type(value, type); });
  }

  std::string problem_of_keyword(const SchemaJson& value, const SchemaJson& schema, const std::string& keyword,
                                 const SchemaJson& says, const std::string& place) const {
    if (keyword == "description") return "";
    if (keyword == "$ref") return problem(value, schema_["$defs"].at(referred(says)), place);
    if (keyword == "type") return is_of_any(value, says) ? "" : fmt::format("{} is {}", place, value.dump());
    if (keyword == "const") return value == says ? "" : fmt::format("{} is {}", place, value.dump());
    if (keyword == "enum")
      return std::find(says.begin(), says.end(), value) != says.end() ? ""
                                                                      : fmt::format("{} is {}", place, value.dump());
    if (keyword == "minimum") return value >= says ? "" : fmt::format("{} is {}, too low", place, value.dump());
    if (keyword == "maximum") return value <= says ? "" : fmt::format("{} is {}, too high", place, value.dump());
    if (keyword == "anyOf") {
      std::string first;
      for (const SchemaJson& choice : says) {
        const std::string found = problem(value, choice, place);
        if (found.empty()) return "";
        if (first.empty()) first = found;
      }
      return first;
    }
    if (keyword == "required") {
      for (const SchemaJson& key : says)
        if (!value.contains(key.get<std::string>())) return fmt::format("{} lacks {}", place, key.dump());
      return "";
    }
    if (keyword == "properties") {
      for (const auto& [key, of_key] : says.items())
        if (value.contains(key))
          if (std::string found = problem(value[key], of_key, place + '.' + key); !found.empty()) return found;
      return "";
    }
    if (keyword == "additionalProperties") {
      for (const auto& [key, inner] : value.items()) {
        if (schema.contains("properties") && schema["properties"].contains(key)) continue;
        if (says.is_boolean() && !says.get<bool>()) return fmt::format("{}.{} is not described", place, key);
        if (says.is_object())
          if (std::string found = problem(inner, says, place + '.' + key); !found.empty()) return found;
      }
      return "";
    }
    if (keyword == "items") {
      for (std::size_t i = 0; i < value.size(); ++i)
        if (std::string found = problem(value[i], says, fmt::format("{}.{}", place, i)); !found.empty()) return found;
      return "";
    }
    throw InternalError("the schema of events has a keyword that tests do not know: " + keyword);
  }

  std::string problem(const SchemaJson& value, const SchemaJson& schema, const std::string& place) const {
    static const std::set<std::string> of_objects = {"required", "properties", "additionalProperties"};
    for (const auto& [keyword, says] : schema.items()) {
      if (of_objects.contains(keyword) && !value.is_object()) continue;
      if (keyword == "items" && !value.is_array()) continue;
      if ((keyword == "minimum" || keyword == "maximum") && !value.is_number()) continue;
      if (std::string found = problem_of_keyword(value, schema, keyword, says, place); !found.empty()) return found;
    }
    return "";
  }

  SchemaJson schema_;
};

}  // namespace

std::string undescribed(std::string_view line) {
  static const EventSchema schema;
  const SchemaJson event = SchemaJson::parse(line, nullptr, false);
  if (event.is_discarded()) return "it is not JSON";
  return schema.problem_of(event);
}

std::string undescribed_lines(std::string_view text) {
  for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (!line.starts_with(R"({"event":)")) continue;
    if (const std::string problem = undescribed(line); !problem.empty())
      return fmt::format("{}: {}", problem, line.substr(0, 2000));
  }
  return "";
}

void DescribedSink::take(const Event& event) {
  const std::string line = event_json(event);
  if (const std::string problem = undescribed(line); !problem.empty())
    throw InternalError(fmt::format("an event is not as it is described: {}: {}", problem, line.substr(0, 2000)));
}

}  // namespace trainer
