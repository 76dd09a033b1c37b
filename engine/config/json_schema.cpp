#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "engine/config/config_reference.h"
#include "engine/config/fields/column_fields.h"
#include "engine/config/fields/enum_choices.h"
#include "engine/config/fields/experiment_fields.h"
#include "engine/config/fields/layer_fields.h"
#include "engine/config/fields/loss_fields.h"
#include "engine/config/fields/name_map_fields.h"
#include "engine/config/fields/stage_fields.h"
#include "engine/config/fields/transform_fields.h"
#include "engine/config/loss_terms.h"
#include "engine/config/text/json_output.h"
#include "engine/config/transform_reader.h"

namespace trainer {
namespace {

using Json = nlohmann::ordered_json;

Json bound(double value) {
  if (value == std::floor(value) && std::abs(value) < 9e15) return static_cast<std::int64_t>(value);
  return value;
}

Json numeric(const Rule& rule, std::string_view type) {
  Json schema{{"type", type}};
  if (std::isfinite(rule.minimum)) schema[rule.excludes_minimum ? "exclusiveMinimum" : "minimum"] = bound(rule.minimum);
  if (std::isfinite(rule.maximum) && rule.maximum < 9e15) {
    schema[rule.excludes_maximum ? "exclusiveMaximum" : "maximum"] = bound(rule.maximum);
  }
  return schema;
}

Json list_of(Json items, std::size_t num_elements) {
  Json schema{{"type", "array"}, {"items", std::move(items)}, {"minItems", num_elements == 0 ? 1 : num_elements}};
  if (num_elements != 0) schema["maxItems"] = num_elements;
  return schema;
}

/// One of the words; `off` is false to many YAML readers.
Json words(const std::vector<std::string>& names) {
  Json all = names;
  if (std::find(names.begin(), names.end(), "off") != names.end()) all.push_back(false);
  return {{"enum", all}};
}

/// The forms, and the words that are accepted too.
std::vector<Json> with_words(std::vector<Json> forms, const Rule& rule) {
  if (rule.words.size() == 1 && rule.words[0] != "off") {
    forms.push_back({{"const", rule.words[0]}});
  } else if (!rule.words.empty()) {
    forms.push_back(words(rule.words));
  }
  return forms;
}

Json schema_of(const Rule& rule, const std::string& help);

/// The forms a value may take, without references.
std::vector<Json> forms_of(const Rule& rule) {
  switch (rule.kind) {
    case ValueKind::boolean:
      return {{{"enum", {true, false, "on", "off"}}}};
    case ValueKind::integer:
      return with_words({numeric(rule, "integer")}, rule);
    case ValueKind::number:
      return {numeric(rule, "number")};
    case ValueKind::text:
      return {{{"type", {"string", "number", "boolean"}}}};
    case ValueKind::size:
      return {numeric(rule, "integer"), {{"type", "string"}, {"pattern", "^[0-9.]+ ?([KkMmGgTt][Ii]?)?[Bb]?$"}}};
    case ValueKind::choice:
      return {words(rule.choice_names())};
    case ValueKind::numbered:
      return {words(rule.choice_names()),
              {{"type", "string"}, {"pattern", fmt::format("^{}:[0-9]+$", rule.choices.back().name)}}};
    case ValueKind::interval:
      return {numeric(rule, "integer"), {{"type", "string"}, {"pattern", "^[0-9]+(ep)?$"}}};
    case ValueKind::pair:
      return {numeric(rule, "integer"), list_of(numeric(rule, "integer"), 2)};
    case ValueKind::sides:
      return {numeric(rule, "integer"), list_of(numeric(rule, "integer"), 2), list_of(numeric(rule, "integer"), 4)};
    case ValueKind::integers: {
      std::vector<Json> forms{list_of(numeric(rule, "integer"), rule.num_elements)};
      if (rule.allows_single) forms.insert(forms.begin(), numeric(rule, "integer"));
      return forms;
    }
    case ValueKind::numbers: {
      std::vector<Json> forms{list_of(numeric(rule, "number"), rule.num_elements)};
      if (rule.allows_single) forms.insert(forms.begin(), numeric(rule, "number"));
      return forms;
    }
    case ValueKind::patterns:
      return with_words({list_of({{"type", {"string", "integer"}}}, 0)}, rule);
    case ValueKind::texts: {
      std::vector<Json> forms{list_of({{"type", {"string", "number", "boolean"}}}, 0)};
      if (rule.allows_single) forms.push_back({{"type", {"string", "number", "boolean"}}});
      return forms;
    }
    case ValueKind::choices:
      return {words(rule.choice_names()), list_of(words(rule.choice_names()), 0)};
    case ValueKind::columns:
      return {{{"type", "object"}, {"additionalProperties", {{"$ref", "#/$defs/column"}}}}};
    case ValueKind::name_maps:
      return {{{"type", "object"}, {"additionalProperties", {{"$ref", "#/$defs/map_of_names"}}}}};
    case ValueKind::rewrites:
      return {list_of(list_of({{"type", {"string", "number", "boolean"}}}, 2), 0)};
    case ValueKind::form: {
      std::vector<Json> forms{words(rule.choice_names())};
      for (const Form& form : rule.forms) {
        forms.push_back({{"type", "object"},
                         {"properties", {{form.name, schema_of(form.rule, form.help)}}},
                         {"required", {form.name}},
                         {"additionalProperties", false}});
      }
      return forms;
    }
    case ValueKind::layers:
      return {{{"$ref", "#/$defs/layers"}}};
    case ValueKind::named_values:
      return {{{"type", "object"}, {"additionalProperties", {{"$ref", "#/$defs/named_value"}}}}};
    case ValueKind::blocks:
      return {{{"type", "object"}, {"additionalProperties", {{"$ref", "#/$defs/block"}}}}};
    case ValueKind::losses:
      return {{{"$ref", "#/$defs/losses"}}};
    case ValueKind::transforms:
      return {{{"$ref", "#/$defs/transforms"}}};
    case ValueKind::group_numbers:
      return {numeric(rule, "number"),
              {{"type", "object"},
               {"properties", {{"slice", {{"anyOf", {numeric(rule, "number"), list_of(numeric(rule, "number"), 2)}}}}}},
               {"additionalProperties", numeric(rule, "number")}}};
    case ValueKind::groups:
      return {{{"type", "object"},
               {"additionalProperties", {{"anyOf", {{{"const", "rest"}}, list_of({{"type", "string"}}, 0)}}}}}};
    case ValueKind::frozen:
      return {{{"type", "string"}},
              list_of({{"type", "string"}}, 0),
              {{"type", "object"},
               {"properties", {{"to", {{"type", {"string", "integer"}}}}, {"group", {{"type", "string"}}}}},
               {"additionalProperties", false}}};
    case ValueKind::stages:
      return {{{"$ref", "#/$defs/stages"}}};
    case ValueKind::mask_classes:
      return {{{"type", "object"}, {"additionalProperties", {{"type", {"string", "integer"}}}}}};
  }
  return {};
}

Json schema_of(const Rule& rule, const std::string& help) {
  std::vector<Json> forms = forms_of(rule);
  const bool is_list_of_maps =
      rule.kind == ValueKind::layers || rule.kind == ValueKind::losses || rule.kind == ValueKind::transforms;
  if (rule.kind != ValueKind::text && !is_list_of_maps) {
    forms.push_back({{"$ref", "#/$defs/reference"}});
    forms.push_back({{"type", "null"}});
  }
  Json schema{{"description", help}};
  if (forms.size() == 1) {
    schema.update(forms.front());
  } else {
    schema["anyOf"] = forms;
  }
  return schema;
}

template <class Owner>
Json schema_of(const Field<Owner>& field, const Owner& initial) {
  Json schema = schema_of(field.rule, field.help);
  // Only what the default is for every type may be filled in by an editor.
  if (field.get && field.default_text.empty() && field.type_defaults.empty() && !field.is_required) {
    const Value value = field.get(initial);
    if (const auto* boolean_value = std::get_if<bool>(&value)) schema["default"] = *boolean_value;
    if (const auto* integer_value = std::get_if<std::int64_t>(&value)) schema["default"] = *integer_value;
    if (const auto* number_value = std::get_if<double>(&value)) schema["default"] = *number_value;
    if (const auto* text_value = std::get_if<std::string>(&value)) schema["default"] = *text_value;
  }
  return schema;
}

Json section_schema(const Section& section) {
  Json properties = Json::object();
  if (section.key.empty()) {
    properties["extends"] = {
        {"description", "Another file, relative to this one, whose keys hold where this one is silent"},
        {"type", "string"}};
  }
  for (const std::string& name : keys_of_section(section.key)) {
    const std::string key = join_key(section.key, name);
    const ExperimentField* field = find_field(key);
    properties[name] = field != nullptr ? schema_of(*field, Experiment{}) : section_schema(*find_section(key));
  }
  Json map{{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
  if (section.key.empty()) return map;
  const ExperimentField* type = section.has_type ? find_field(section.key + ".type") : nullptr;
  std::vector<Json> forms{map, {{"type", "null"}}};
  if (type != nullptr) {
    for (Json& form : forms_of(type->rule)) forms.push_back(std::move(form));
    forms.push_back({{"$ref", "#/$defs/reference"}});
  }
  if (section.type_is_key) {
    for (const Choice& choice : type->rule.choices) {
      Json keys = Json::object();
      for (const std::string& name : keys_of_section(section.key)) {
        const std::string key = join_key(section.key, name);
        const ExperimentField* field = find_field(key);
        // A section in this one is for the choices that its first key is for.
        if (field == nullptr) field = find_field(join_key(key, keys_of_section(key).front()));
        if (field == type || field->read || !field->applies_to(choice.name)) continue;
        keys[name] = properties[name];
      }
      const Json form{{"type", {"object", "null"}}, {"properties", keys}, {"additionalProperties", false}};
      forms.push_back({{"type", "object"},
                       {"properties", {{choice.name, form}}},
                       {"required", {choice.name}},
                       {"additionalProperties", false}});
    }
  }
  if (const ExperimentField* terms = find_field(join_key(section.key, "terms")))
    for (Json& form : forms_of(terms->rule)) forms.push_back(std::move(form));
  return {{"description", section.help}, {"anyOf", forms}};
}

Json condition_schema() {
  return {{"description", when_help},
          {"anyOf", {{{"type", {"boolean", "integer", "null"}}}, {{"$ref", "#/$defs/reference"}}}}};
}

/// Blocks, what they are given, and how they are used: any name that no kind of layer has.
void add_block_definitions(Json& definitions) {
  const Json name{{"type", "string"},
                  {"pattern", "^([A-Za-z_][A-Za-z0-9_]*|\\$\\{[^}]+\\})$"},
                  {"not", {{"enum", layer_kind_names()}}}};
  const Json value{{"type", {"string", "number", "boolean", "null"}}};
  const Json described{
      {"type", "object"},
      {"properties", {{"default", value}, {"one_of", {{"type", "array"}, {"items", value}, {"minItems", 1}}}}},
      {"additionalProperties", false}};
  definitions["named_value"] = value;
  definitions["block"] = {
      {"type", "object"},
      {"properties",
       {{"parameters", {{"type", {"object", "null"}}, {"additionalProperties", {{"anyOf", {value, described}}}}}},
        {"layers", {{"$ref", "#/$defs/layers"}}}}},
      {"required", {"layers"}},
      {"additionalProperties", false}};
  definitions["use"] = {
      {"anyOf",
       {name,
        {{"type", "object"},
         {"propertyNames", name},
         {"minProperties", 1},
         {"maxProperties", 1},
         {"additionalProperties", {{"type", {"object", "null"}}, {"additionalProperties", value}}}}}}};
}

/// What data.columns says of a column: a kind, or its keys.
Json column_schema() {
  Json properties = Json::object();
  for (const Field<ColumnConfig>& field : column_fields()) properties[field.key] = schema_of(field, ColumnConfig{});
  return {{"anyOf",
           {words(find_field(column_fields(), "type")->rule.choice_names()),
            {{"type", "object"}, {"properties", properties}, {"additionalProperties", false}}}}};
}

/// What model.maps says of names.
Json map_of_names_schema() {
  Json properties = Json::object();
  for (const Field<NameMap>& field : name_map_fields()) properties[field.key] = schema_of(field, NameMap{});
  return {{"type", {"object", "null"}}, {"properties", properties}, {"additionalProperties", false}};
}

/// A term of a loss that is a sum.
Json loss_schema() {
  Json properties = Json::object();
  for (const Field<LossConfig>& field : loss_term_fields()) {
    Json* section = &properties;
    std::string_view rest = field.key;
    for (std::size_t dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
      Json& map = (*section)[std::string(rest.substr(0, dot))];
      if (map.is_null())
        map = {{"type", {"object", "null"}}, {"properties", Json::object()}, {"additionalProperties", false}};
      section = &map["properties"];
      rest.remove_prefix(dot + 1);
    }
    (*section)[std::string(rest)] = schema_of(field, LossConfig{});
  }
  Json words = Json::array();
  std::vector<Json> forms{{{"type", "object"}, {"properties", properties}, {"additionalProperties", false}}};
  for (const Choice& choice : loss_choices().choices) {
    words.push_back(choice.name);
    Json keys = properties;
    keys.erase("type");
    const Json form{{"type", {"object", "null"}}, {"properties", keys}, {"additionalProperties", false}};
    forms.push_back({{"type", "object"},
                     {"properties", {{choice.name, form}}},
                     {"required", {choice.name}},
                     {"additionalProperties", false}});
  }
  forms.push_back({{"enum", words}});
  return {{"anyOf", forms}};
}

/// The keys of a kind whose initial state is `initial`, and which of them are required.
template <class Owner>
std::pair<Json, Json> keys_schema(const std::vector<Field<Owner>>& fields, const Owner& initial) {
  Json properties = Json::object();
  Json required = Json::array();
  for (const auto& field : fields) {
    properties[field.key] = schema_of(field, initial);
    if (field.is_required) required.push_back(field.key);
  }
  return {std::move(properties), std::move(required)};
}

/// A name with keys; the keys of a kind that needs none may be missing.
Json kind_schema(const std::string& name, const std::string& help, bool needs_keys, Json properties, Json required) {
  Json keys{{"type", needs_keys ? Json("object") : Json{"object", "null"}},
            {"properties", std::move(properties)},
            {"additionalProperties", false}};
  if (!required.empty()) keys["required"] = std::move(required);
  return {{"description", help},
          {"type", "object"},
          {"properties", {{name, keys}}},
          {"required", {name}},
          {"additionalProperties", false}};
}

Json transform_schema(const TransformKind& kind) {
  auto [properties, required] = keys_schema(kind.fields, TransformSpec{kind.name, kind.initial});
  return kind_schema(kind.name, kind.help, kind.has_required_key(), std::move(properties), std::move(required));
}

Json layer_schema(const LayerKind& kind) {
  LayerSpec initial;
  initial.spec = kind.initial;
  auto [properties, required] = keys_schema(kind.fields, initial);
  properties["name"] = {{"description", "What the layer is called, unlike its neighbours"},
                        {"type", "string"},
                        {"pattern", "^[A-Za-z0-9_-]*[A-Za-z_-][A-Za-z0-9_-]*$"}};
  const Json layer_name{{"type", "string"}, {"pattern", "^[A-Za-z0-9_.-]+$"}};
  Json several{{"type", "array"}, {"items", layer_name}, {"minItems", kind.min_inputs}, {"uniqueItems", true}};
  if (kind.max_inputs != any_number) several["maxItems"] = kind.max_inputs;
  if (!kind.takes_several())
    properties["from"] = layer_name;
  else
    properties["from"] = kind.takes_one ? Json{{"anyOf", {layer_name, several}}} : several;
  properties["from"]["description"] = from_help(kind);
  if (kind.has_parameters) {
    properties["share"] = layer_name;
    properties["share"]["description"] = share_help;
  }
  properties["when"] = condition_schema();
  if (kind.name == "repeat") {
    const Json name_schema{{"type", "string"}, {"pattern", "^[A-Za-z_][A-Za-z0-9_]*$"}};
    properties["as"] = name_schema;
    properties["as"]["description"] = as_help;
  }
  if (!kind.takes_one) required.push_back("from");
  return kind_schema(kind.name, kind.help, kind.has_required_key(), std::move(properties), std::move(required));
}

/// A transform by name, or by name with keys.
Json transform_forms() {
  Json words = Json::array();
  Json forms = Json::array();
  for (const TransformKind& kind : transform_kinds()) {
    if (!kind.has_required_key()) words.push_back(kind.name);
    forms.push_back(transform_schema(kind));
  }
  forms.insert(forms.begin(), Json{{"enum", words}});
  return {{"anyOf", forms}};
}

/// Stages have the keys of the whole, but for those that they have in common.
Json stages_schema(Json properties) {
  for (const SharedKey& shared : keys_of_all_stages()) properties.erase(shared.key);
  const auto of = [](const std::string& key) {
    const StageField& field = *find_field(stage_fields(), key);
    return schema_of(field.rule, field.help);
  };
  const auto map_of = [](Json its_properties) {
    return Json{{"type", "object"}, {"properties", std::move(its_properties)}, {"additionalProperties", false}};
  };
  for (const char* const key : {"name", "unfreeze", "purge"}) properties[key] = of(key);
  Json clear = of("optimizer.clear");
  clear["anyOf"] = {{{"type", "boolean"}}, {{"enum", {"all", "none"}}}, list_of({{"type", "string"}}, 0)};
  Json& optimizer = properties["optimizer"];
  optimizer["anyOf"].front()["properties"]["clear"] = clear;
  for (Json& form : forms_of(find_field(stage_fields(), "optimizer")->rule))
    optimizer["anyOf"].push_back(std::move(form));
  Json predict = map_of({{"inputs", of("predict.inputs")},
                         {"data", map_of({{"root", of("predict.data.root")}})},
                         {"output", of("predict.output")},
                         {"masks", of("predict.masks")},
                         {"top", of("predict.top")},
                         {"lines", of("predict.lines")}});
  predict["description"] = find_stage_section("predict")->help;
  predict["required"] = {"output"};
  properties["predict"] = std::move(predict);
  const Json stage = map_of(std::move(properties));
  Json recipe = map_of({{"epochs", of("fine_tune.epochs")},
                        {"lr", of("fine_tune.lr")},
                        {"freeze_epochs", of("fine_tune.freeze_epochs")}});
  recipe["description"] = find_stage_section("fine_tune")->help;
  recipe["required"] = {"epochs"};
  return {{"anyOf",
           {{{"type", "array"}, {"items", {{"anyOf", {stage, map_of({{"fine_tune", recipe}})}}}}},
            map_of({{"fine_tune", recipe}}),
            {{"type", "null"}}}}};
}

}  // namespace

std::string config_json_schema() {
  Json schema{{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", "trainer experiment"}};
  schema.update(section_schema(*find_section("")));
  Json words = Json::array();
  Json layer_forms = Json::array();
  for (const LayerKind& kind : layer_kinds()) {
    if (!kind.has_required_key()) words.push_back(kind.name);
    layer_forms.push_back({{"$ref", "#/$defs/" + kind.name}});
  }
  layer_forms.insert(layer_forms.begin(), Json{{"enum", words}});
  layer_forms.push_back({{"$ref", "#/$defs/use"}});
  Json definitions{
      {"reference", {{"type", "string"}, {"pattern", "\\$\\{[^}]+\\}"}}},
      {"layers", {{"type", "array"}, {"items", {{"$ref", "#/$defs/layer"}}}}},
      {"layer", {{"anyOf", layer_forms}}},
      {"losses",
       {{"type", "array"}, {"items", {{"$ref", "#/$defs/loss"}}}, {"minItems", 1}, {"maxItems", most_loss_terms}}},
      {"loss", loss_schema()},
      {"transforms", {{"type", "array"}, {"items", {{"$ref", "#/$defs/transform"}}}, {"maxItems", most_transforms}}},
      {"transform", transform_forms()}};
  for (const LayerKind& kind : layer_kinds()) definitions[kind.name] = layer_schema(kind);
  definitions["column"] = column_schema();
  definitions["map_of_names"] = map_of_names_schema();
  add_block_definitions(definitions);
  definitions["stages"] = stages_schema(schema["properties"]);
  schema["$defs"] = definitions;
  return json_text(schema, 2) + "\n";
}

}  // namespace trainer
