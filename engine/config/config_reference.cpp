#include "engine/config/config_reference.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/config/diagnostic.h"
#include "engine/config/fields/experiment_fields.h"
#include "engine/config/fields/layer_fields.h"
#include "engine/config/fields/stage_fields.h"
#include "engine/config/fields/transform_fields.h"
#include "engine/config/text/absent_feature.h"
#include "engine/config/text/nearest_word.h"
#include "engine/config/text/utf8_text.h"
#include "engine/trainer_command.h"

namespace trainer {
namespace {

constexpr std::string_view layers_prefix = "model.layers.";

/// A scalar or a list of scalars on one line.
std::string inline_text(const Node& node) {
  if (node.kind != NodeKind::sequence) return node.text;
  std::vector<std::string> items;
  for (const Node& item : node.items) items.push_back(item.text);
  return fmt::format("[{}]", fmt::join(items, ", "));
}

template <class Owner>
std::string default_text(const Field<Owner>& field, const Owner& initial) {
  if (field.is_required) return "required";
  std::string text = field.default_text;
  if (text.empty() && field.get) text = inline_text(node_of(field.get(initial)));
  if (text.empty()) text = "none";
  for (const auto& [type, value] : field.type_defaults) text += fmt::format("; {} for {}", value, type);
  return text;
}

template <class Owner>
std::string applies_text(const Field<Owner>& field) {
  if (field.only_for.empty()) return "";
  return fmt::format("only with {} {}", field.decided_by.empty() ? "type" : field.decided_by,
                     fmt::join(field.only_for, ", "));
}

std::string choices_text(const Rule& rule, std::string_view bullet) {
  std::string text;
  for (const Choice& choice : rule.choices) {
    if (!choice.help.empty()) text += fmt::format("{}{:<16} {}\n", bullet, choice.name, choice.help);
  }
  for (const Form& form : rule.forms) {
    text += fmt::format("{}{:<16} {}\n", bullet, fmt::format("{{{}: …}}", form.name), form.help);
  }
  return text;
}

/// A value that could be written for the rule, for examples of keys.
std::string example_value(const Rule& rule, const std::string& default_value) {
  switch (rule.kind) {
    case ValueKind::size:
      return rule.example;
    case ValueKind::numbered:
      return "cpu";
    case ValueKind::interval:
      return "1ep";
    case ValueKind::numbers:
      return rule.num_elements == 2 ? "[0.9, 0.99]" : "[0.5, 0.25, 0.25]";
    case ValueKind::integers:
      return "[28, 28, 1]";
    case ValueKind::pair:
      return "[3, 3]";
    case ValueKind::sides:
      return "[0, 1, 0, 1]";
    case ValueKind::choice:
      return rule.choices.back().name;
    case ValueKind::boolean:
      return default_value == "true" ? "false" : "true";
    case ValueKind::integer:
      return rule.minimum <= 64 && rule.maximum >= 64 ? "64" : "1";
    case ValueKind::number:
      return rule.excludes_maximum || rule.maximum <= 1.0 ? "0.5" : "0.01";
    case ValueKind::text:
      return "text";
    case ValueKind::patterns:
      return "[features.0, conv2d]";
    case ValueKind::texts:
      return rule.example;
    case ValueKind::choices:
      return rule.choices.back().name;
    case ValueKind::columns:
      return "{Pclass: category, Age: {missing: median}}";
    case ValueKind::name_maps:
      return "{theirs: {rename: [['^module\\\\.', '']]}}";
    case ValueKind::rewrites:
      return "[['^module\\.', '']]";
    case ValueKind::form:
      return fmt::format("{{{}: {}}}", rule.forms.front().name, example_value(rule.forms.front().rule, ""));
    case ValueKind::layers:
      return "[flatten, linear: {out: 10}]";
    case ValueKind::named_values:
      return "{depth: 50}";
    case ValueKind::blocks:
      return "{hidden: {parameters: {width: 64}, layers: [linear: {out: \"${width}\"}, relu]}}";
    case ValueKind::losses:
      return "[cross_entropy, {type: dice, weight: 0.5}]";
    case ValueKind::transforms:
      return "[random_crop: {size: 32, padding: 4}, flip]";
    case ValueKind::mask_classes:
      return "{0: 0, 255: 1}";
    case ValueKind::group_numbers:
      return "{slice: [1e-5, 1e-3]}";
    case ValueKind::groups:
      return "{body: rest, head: [fc]}";
    case ValueKind::frozen:
      return "[encoder.*]";
    case ValueKind::stages:
      return "[{freeze: {to: head}}, {unfreeze: all}]";
  }
  return "";
}

std::string nested_example(std::string_view key, const std::string& value) {
  const std::size_t dot = key.find('.');
  if (dot == std::string_view::npos) return fmt::format("{}: {}", key, value);
  return fmt::format("{}: {{{}}}", key.substr(0, dot), nested_example(key.substr(dot + 1), value));
}

std::string example_of(const ExperimentField& field) {
  const std::string value = example_value(field.rule, default_text(field, Experiment{}));
  const std::size_t dot = field.key.find('.');
  if (field.only_for.empty() || !field.decided_by.empty()) return nested_example(field.key, value);
  // The type that it applies to stands beside it.
  return fmt::format("{}: {{type: {}, {}}}", field.key.substr(0, dot), field.only_for.front(),
                     nested_example(std::string_view(field.key).substr(dot + 1), value));
}

template <class Owner>
std::string explain(const Field<Owner>& field, const std::string& title, const Owner& initial,
                    const std::string& example) {
  std::string text = fmt::format("{}\n  {}.\n\n  type:     {}\n", title, field.help, type_name(field.rule));
  text += fmt::format("  value:    {}\n", expectation_of(field.rule));
  text += fmt::format("  default:  {}\n", default_text(field, initial));
  if (!field.only_for.empty()) text += fmt::format("  applies:  {}\n", applies_text(field));
  text += fmt::format("  example:  {}\n", example);
  const std::string choices = choices_text(field.rule, "    ");
  if (!choices.empty()) text += "\n" + choices;
  return text;
}

template <class Owner>
std::string explain_keys(const std::vector<Field<Owner>>& fields, const Owner& initial) {
  std::string text;
  for (const Field<Owner>& field : fields) {
    text += fmt::format("  {:<20} {}; {}\n", field.key, type_name(field.rule), default_text(field, initial));
    text += fmt::format("  {:<20} {}\n", "", field.help);
  }
  return text;
}

std::string explain_layer(const LayerKind& kind) {
  std::string text =
      fmt::format("{} (a layer of model.layers)\n  {}.\n\n  example:  {}\n\n", kind.name, kind.help, kind.example);
  LayerSpec initial;
  initial.spec = kind.initial;
  text += explain_keys(kind.fields, initial);
  text += fmt::format("  {:<20} text; what the layer is called, unlike its neighbours\n", "name");
  const std::string_view from_type = !kind.takes_several() ? "text"
                                     : kind.takes_one      ? "text, or list of texts"
                                                           : "list of texts";
  text += fmt::format("  {:<20} {}; {}\n  {:<20} {}\n", "from", from_type, kind.takes_one ? "none" : "required", "",
                      from_help(kind));
  if (kind.has_parameters) text += fmt::format("  {:<20} text; none\n  {:<20} {}\n", "share", "", share_help);
  if (kind.name == "repeat") text += fmt::format("  {:<20} text; none\n  {:<20} {}\n", "as", "", as_help);
  return text + fmt::format("  {:<20} true, false or an expression; true\n  {:<20} {}\n", "when", "", when_help);
}

std::string explain_layer_list() {
  std::string text = "\n  A layer is a name (`relu`) or a name with keys (`linear: {out: 10}`):\n\n";
  for (const LayerKind& kind : layer_kinds()) text += fmt::format("    {:<16} {}\n", kind.name, kind.help);
  return text + fmt::format("\n  '{}' tells the keys of a layer.\n", trainer_command("config explain conv2d"));
}

std::string explain_transform(const TransformKind& kind) {
  return fmt::format("{} (a transform of data.transforms)\n  {}.\n\n  example:  {}\n\n{}", kind.name, kind.help,
                     kind.example, explain_keys(kind.fields, TransformSpec{kind.name, kind.initial}));
}

std::string explain_transform_list() {
  std::string text = "\n  A transform is a name (`flip`) or a name with keys (`random_crop: {size: 32}`):\n\n";
  for (const TransformKind& kind : transform_kinds()) text += fmt::format("    {:<20} {}\n", kind.name, kind.help);
  return text + fmt::format("\n  '{}' tells the keys of a transform.\n", trainer_command("config explain random_crop"));
}

std::string explain_section(const Section& section) {
  std::string text = section.key.empty() ? "" : fmt::format("{}\n  {}.\n\n", section.key, section.help);
  const std::vector<std::string> names = keys_of_section(section.key);
  std::size_t width = 0;
  for (const std::string& name : names) width = std::max(width, join_key(section.key, name).size());
  for (const std::string& name : names) {
    const std::string key = join_key(section.key, name);
    const ExperimentField* field = find_field(key);
    text += fmt::format("  {:<{}}  {}\n", key, width, field != nullptr ? field->help : find_section(key)->help);
  }
  return text;
}

/// `keys` as an entry of `stages` has them, or `fine_tune` in place of one.
std::string stage_example(std::string_view key, const std::string& keys) {
  if (key.starts_with("fine_tune")) return fmt::format("stages: {{{}}}", keys);
  return fmt::format("stages: [{{train: {{epochs: 1}}}}, {{{}}}]", keys);
}

std::string example_of(const StageField& field) {
  // What its section cannot do without stands beside it.
  if (field.key.starts_with("predict.")) {
    const std::string inputs = field.key == "predict.data.root" ? "data: {root: photos}" : "inputs: [photos]";
    std::string keys = inputs + ", output: predictions.csv";
    if (field.key == "predict.masks") keys += ", masks: masks";
    if (field.key == "predict.top") keys += ", top: 5";
    if (field.key == "predict.lines") keys += ", lines: true";
    return stage_example(field.key, fmt::format("predict: {{{}}}", keys));
  }
  if (field.key == "fine_tune.epochs") return stage_example(field.key, "fine_tune: {epochs: 3}");
  const std::string value = field.key == "unfreeze"
                                ? "all"
                                : example_value(field.rule, field.default_text.substr(0, field.default_text.find(',')));
  if (field.key.starts_with("fine_tune."))
    return stage_example(field.key, fmt::format("fine_tune: {{epochs: 3, {}: {}}}", last_of(field.key),
                                                field.key == "fine_tune.freeze_epochs" ? "2" : value));
  return stage_example(field.key, nested_example(field.key, value));
}

/// A key that only entries of `stages` have, or those in one of their sections; "" where it is none.
std::string explain_stage_key(std::string_view key) {
  if (const StageField* field = find_field(stage_fields(), key))
    return explain(*field, fmt::format("{} (of an entry of stages)", field->key), StageConfig{}, example_of(*field));
  const Section* section = find_stage_section(key);
  if (section == nullptr) return "";
  std::string text = fmt::format("{} (of stages)\n  {}.\n\n", section->key, section->help);
  for (const StageField& field : stage_fields()) {
    if (!field.key.starts_with(section->key + '.')) continue;
    text += fmt::format("  {:<24} {}; {}\n", field.key, type_name(field.rule), default_text(field, StageConfig{}));
    text += fmt::format("  {:<24} {}\n", "", field.help);
  }
  const StageField& first = *std::find_if(stage_fields().begin(), stage_fields().end(), [&](const StageField& field) {
    return field.key.starts_with(section->key + '.');
  });
  return text + fmt::format("\n  example:  {}\n", example_of(first));
}

std::string explain_stage_keys() {
  std::string text = "\n  Beside keys of the file an entry takes, and fine_tune in place of one:\n\n";
  for (const StageField& field : stage_fields()) text += fmt::format("    {:<24} {}\n", field.key, field.help);
  return text + fmt::format("\n  '{}' tells of one of them.\n", trainer_command("config explain stages.unfreeze"));
}

/// "unfreeze" of "stages.unfreeze" and "stages.1.unfreeze"; all of a key that does not begin so.
std::string_view key_in_stage(std::string_view key) {
  constexpr std::string_view prefix = "stages.";
  if (!key.starts_with(prefix)) return key;
  key.remove_prefix(prefix.size());
  const std::size_t end = std::min(key.find_first_not_of("0123456789"), key.size());
  if (end > 0 && end == key.size()) return "stages";
  if (end > 0 && key[end] == '.') key.remove_prefix(end + 1);
  return key;
}

std::vector<std::string> all_keys() {
  std::vector<std::string> keys;
  for (const Section& section : sections()) {
    if (!section.key.empty()) keys.push_back(section.key);
  }
  for (const ExperimentField& field : experiment_fields()) keys.push_back(field.key);
  for (const LayerKind& kind : layer_kinds()) {
    keys.push_back(kind.name);
    for (const std::string& key : kind.keys()) keys.push_back(fmt::format("{}.{}", kind.name, key));
  }
  for (const TransformKind& kind : transform_kinds()) keys.push_back(kind.name);
  for (const Section& section : stage_sections()) keys.push_back(section.key);
  for (const StageField& field : stage_fields()) {
    keys.push_back(field.key);
    keys.emplace_back(last_of(field.key));
  }
  return keys;
}

/// What `value` means to the keys that take it as a word; "" where none does.
std::string explain_value(std::string_view value) {
  std::string text, example_key;
  const auto add = [&](const std::string& key, const Rule& rule) {
    const auto tell = [&](const std::string& help) {
      text += fmt::format("  a value of {}{}{}\n", key, help.empty() ? "" : ": ", help);
      example_key = key;
    };
    for (const Choice& choice : rule.choices)
      if (choice.name == value) tell(choice.help);
    for (const Form& form : rule.forms)
      if (form.name == value) tell(fmt::format("{{{}: …}}, {}", form.name, form.help));
    if (std::find(rule.words.begin(), rule.words.end(), value) != rule.words.end()) tell("");
  };
  for (const ExperimentField& field : experiment_fields()) add(field.key, field.rule);
  for (const LayerKind& kind : layer_kinds())
    for (const auto& field : kind.fields) add(fmt::format("{}.{}", kind.name, field.key), field.rule);
  for (const StageField& field : stage_fields()) add("stages." + field.key, field.rule);
  if (text.empty()) return "";
  std::vector<std::string> keys_with_it;
  for (const ExperimentField& field : experiment_fields())
    if (std::find(field.only_for.begin(), field.only_for.end(), value) != field.only_for.end())
      keys_with_it.push_back(field.key);
  if (!keys_with_it.empty()) text += fmt::format("  keys with it: {}\n", fmt::join(keys_with_it, ", "));
  return fmt::format("{}\n{}\n  '{}' tells all its values.\n", value, text,
                     trainer_command("config explain " + example_key));
}

/// The one key whose last part is `word`; "" where there is none or more.
template <class Owner>
std::string key_ending_in(const std::vector<Field<Owner>>& fields, std::string_view word) {
  std::string found;
  for (const Field<Owner>& field : fields) {
    if (last_of(field.key) != word) continue;
    if (!found.empty()) return "";
    found = field.key;
  }
  return found;
}

/// The words that are values, for suggestions.
std::vector<std::string> all_values() {
  std::vector<std::string> values;
  const auto add = [&](const Rule& rule) {
    for (const Choice& choice : rule.choices) values.push_back(choice.name);
    for (const Form& form : rule.forms) values.push_back(form.name);
    values.insert(values.end(), rule.words.begin(), rule.words.end());
  };
  for (const ExperimentField& field : experiment_fields()) add(field.rule);
  for (const LayerKind& kind : layer_kinds())
    for (const auto& field : kind.fields) add(field.rule);
  for (const StageField& field : stage_fields()) add(field.rule);
  return values;
}

/// The key or value that other programs call so.
std::string value_called(std::string_view word) {
  for (const ExperimentField& field : experiment_fields())
    for (const Choice& choice : field.rule.choices)
      if (std::find(choice.synonyms.begin(), choice.synonyms.end(), word) != choice.synonyms.end()) return choice.name;
  return "";
}

[[noreturn]] void refuse_key(std::string_view key) {
  if (const std::string_view instead = absent_feature(last_of(key)); !instead.empty())
    throw ConfigError(fmt::format("there is no key '{}': {}", shortened(key), instead));
  std::string suggestion = key_called(key);
  if (suggestion.empty()) suggestion = value_called(key);
  if (suggestion.empty()) suggestion = nearest(key, all_keys());
  if (suggestion.empty()) suggestion = nearest(key, all_values());
  Diagnostic diagnostic;
  diagnostic.location.line = 0;
  diagnostic.message = fmt::format("there is no key, value or word '{}'", shortened(key));
  diagnostic.expectation =
      "a key such as train.batch_size, a section such as train, a layer such as conv2d, a value such as one_cycle, or "
      "a "
      "word of the reports such as reserved";
  diagnostic.suggestion = suggestion;
  throw config_error({diagnostic});
}

/// Text in a cell of a Markdown table.
std::string cell(std::string_view text) {
  std::string result;
  for (const char letter : text) {
    if (letter == '|') result += '\\';
    result += letter;
  }
  return result;
}

template <class Owner>
std::string table_row(const Field<Owner>& field, const Owner& initial) {
  std::string help = field.help;
  std::vector<std::string> choices;
  for (const Choice& choice : field.rule.choices) {
    if (!choice.help.empty()) choices.push_back(fmt::format("`{}`: {}", choice.name, choice.help));
  }
  for (const Form& form : field.rule.forms) choices.push_back(fmt::format("`{{{}: …}}`: {}", form.name, form.help));
  if (!choices.empty()) help += fmt::format(". {}", fmt::join(choices, "; "));
  if (!field.only_for.empty()) help += fmt::format(" ({})", applies_text(field));
  const bool has_range = field.rule.kind == ValueKind::integer || field.rule.kind == ValueKind::number;
  const std::string type = has_range ? expectation_of(field.rule) : type_name(field.rule);
  return fmt::format("| `{}` | {} | {} | {} |\n", field.key, cell(type), cell(default_text(field, initial)),
                     cell(help));
}

/// "`output`, `device` and `seed`".
std::string told_keys(const std::vector<SharedKey>& keys) {
  std::string text;
  for (std::size_t i = 0; i < keys.size(); ++i)
    text += fmt::format("{}`{}`", i == 0 ? "" : i + 1 == keys.size() ? " and " : ", ", keys[i].key);
  return text;
}

}  // namespace

std::string key_called(std::string_view word) {
  for (const ExperimentField& field : experiment_fields()) {
    const std::string_view last = std::string_view(field.key).substr(section_of(field.key).size());
    const bool is_last_part = last == word || (last.starts_with('.') && last.substr(1) == word);
    const bool is_synonym = std::find(field.synonyms.begin(), field.synonyms.end(), word) != field.synonyms.end();
    if (field.key == word || is_last_part || is_synonym) return field.key;
  }
  return "";
}

std::string explain_key(std::string_view key) {
  if (key.starts_with(layers_prefix)) key.remove_prefix(layers_prefix.size());
  if (const std::string_view inner = key_in_stage(key); inner != key) {
    std::string of_stage = explain_stage_key(inner);
    return of_stage.empty() ? explain_key(inner) : of_stage;
  }
  if (const ExperimentField* field = find_field(key)) {
    std::string text = explain(*field, field->key, Experiment{}, example_of(*field));
    if (field->layers) text += explain_layer_list();
    if (field->rule.kind == ValueKind::transforms) text += explain_transform_list();
    if (field->rule.kind == ValueKind::stages) text += explain_stage_keys();
    return text;
  }
  if (const Section* section = find_section(key)) return explain_section(*section);
  if (const LayerKind* kind = find_layer_kind(key)) return explain_layer(*kind);
  if (const TransformKind* kind = find_transform_kind(key)) return explain_transform(*kind);
  if (std::string of_stage = explain_stage_key(key); !of_stage.empty()) return of_stage;
  const std::string whole_of_stage = key_ending_in(stage_fields(), key);
  if (std::string value = explain_value(key); !value.empty())
    return value + (whole_of_stage.empty() ? "" : '\n' + explain_stage_key(whole_of_stage));
  if (const std::string whole = key_ending_in(experiment_fields(), key); !whole.empty() && whole != key)
    return explain_key(whole);
  if (!whole_of_stage.empty()) return explain_stage_key(whole_of_stage);
  const std::size_t dot = key.find('.');
  const LayerKind* kind = dot == std::string_view::npos ? nullptr : find_layer_kind(key.substr(0, dot));
  if (kind == nullptr) refuse_key(key);
  for (const auto& field : kind->fields) {
    if (field.key != key.substr(dot + 1)) continue;
    LayerSpec initial;
    initial.spec = kind->initial;
    return explain(field, fmt::format("{} of the layer {}", field.key, kind->name), initial, kind->example);
  }
  const std::string rest(key.substr(dot + 1));
  const std::vector<std::string> keys = kind->keys();
  if (std::find(keys.begin(), keys.end(), rest) != keys.end()) return explain_layer(*kind);
  refuse_key(key);
}

std::string config_reference_markdown() {
  std::string text;
  for (const Section& section : sections()) {
    const std::string title = section.key.empty() ? "The file" : fmt::format("`{}`", section.key);
    text += fmt::format("### {}\n\n", title);
    if (!section.key.empty()) text += section.help + ".\n\n";
    text += "| key | value | default | meaning |\n|---|---|---|---|\n";
    if (section.key.empty()) {
      text +=
          "| `extends` | text | none | Another file, relative to this one, whose keys hold where this one is silent "
          "|\n";
    }
    for (const ExperimentField& field : experiment_fields()) {
      if (section_of(field.key) == section.key) text += table_row(field, Experiment{});
    }
    text += "\n";
  }
  text += fmt::format(
      "### Entries of `stages`\n\nAn entry has the keys of the file but {}, and keys of its own; `fine_tune` stands in "
      "place of an entry or of the list. See [STAGES.md](STAGES.md).\n\n| key | value | default | meaning "
      "|\n|---|---|---|---|\n",
      told_keys(keys_of_all_stages()));
  for (const StageField& field : stage_fields()) text += table_row(field, StageConfig{});
  text +=
      "\n### Layers\n\nA layer of `model.layers` is a name (`relu`) or a name with keys (`linear: {out: 10}`). Any "
      "layer "
      "takes "
      "`name`: letters, digits, `_` and `-`, unlike its neighbours', and `from`: the name of a layer before it, whose "
      "output it takes instead of that of the layer right before it. A name is sought among the layers of the same "
      "list, "
      "then of the list around it; `block.conv` is a layer in another one, `input` the model's input and `in` that of "
      "the list. `share`, of a layer with parameters, names in the same way a layer before it whose parameters it "
      "uses. "
      "`when` leaves a layer out where it is 0 or false. A `repeat` with `as: i` writes its copies into the "
      "list where it stands, with `${i}` from 0.\n\n";
  for (const LayerKind& kind : layer_kinds()) {
    text += fmt::format("#### `{}`\n\n{}. Example: `{}`\n\n", kind.name, kind.help, kind.example);
    if (kind.fields.empty()) continue;
    text += "| key | value | default | meaning |\n|---|---|---|---|\n";
    LayerSpec initial;
    initial.spec = kind.initial;
    for (const auto& field : kind.fields) text += table_row(field, initial);
    text += "\n";
  }
  text +=
      "### Transforms\n\nA transform of `data.transforms` is a name (`flip`) or a name with keys (`random_crop: {size: "
      "32}`). They are torchvision's (`torchvision.transforms.v2`), with its defaults, and are done in their "
      "order.\n\n";
  for (const TransformKind& kind : transform_kinds()) {
    text += fmt::format("#### `{}`\n\n{}. Example: `{}`\n\n| key | value | default | meaning |\n|---|---|---|---|\n",
                        kind.name, kind.help, kind.example);
    for (const auto& field : kind.fields) text += table_row(field, TransformSpec{kind.name, kind.initial});
    text += "\n";
  }
  while (text.ends_with("\n\n")) text.pop_back();
  return text;
}

}  // namespace trainer
