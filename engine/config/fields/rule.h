#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trainer {

enum class ValueKind : std::uint8_t {
  boolean,   ///< bool
  integer,   ///< int64, or string where it is one of Rule::words
  number,    ///< double
  text,      ///< string
  size,      ///< int64, bytes
  choice,    ///< string, one of Rule::choices
  numbered,  ///< string, one of Rule::choices, the last also with a number behind it: cuda, cuda:1
  interval,  ///< Interval
  pair,      ///< Pair, also written as one integer
  sides,     ///< Sides, also written as one integer or a Pair
  integers,  ///< vector of int64, with Rule::allows_single also written as one integer
  numbers,   ///< vector of double, with Rule::allows_single also written as one number
  patterns,  ///< vector of string: layers by path or kind, `*` for anything; or string where it is one of Rule::words
  texts,     ///< vector of string, none of them empty; with Rule::allows_single also written as one text
  choices,   ///< vector of string, each one of Rule::choices; also written as one
  rewrites,  ///< vector of TextPair: regular expressions with their replacements, see text/rewrite.h
  form,      ///< string, one of Rule::choices, or Keyed: a map of one key, one of Rule::forms
  layers,    ///< a list of layers; not a Value
  named_values,   ///< a map of values; not a Value: Note [Models written out] in engine/config/model/model_expansion.h
  blocks,         ///< a map of blocks; likewise
  losses,         ///< a list of losses; not a Value
  columns,        ///< a map of columns; not a Value
  name_maps,      ///< a map of maps of names; not a Value
  transforms,     ///< a list of transforms; not a Value
  mask_classes,   ///< a map of values of masks; not a Value
  group_numbers,  ///< GroupNumbers: a number, or one for each layer group
  groups,         ///< a map of layer groups; not a Value
  frozen,         ///< what is frozen: patterns, or a map of one of `to` and `group`; not a Value
  stages,         ///< a list of stages; not a Value: Note [Stages] in engine/config/stages.h
};

struct Choice {
  std::string name;
  std::string help;
  std::vector<std::string> synonyms = {};  ///< what other programs call it, for suggestions
};

struct Form;

/// A choice that stands for a value of an enum.
template <class Enum>
struct EnumChoice {
  std::string name;
  Enum value;
  std::string help = {};
  std::vector<std::string> synonyms = {};
};

/// What may be written for a field.
struct Rule {
  ValueKind kind = ValueKind::text;
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  bool excludes_minimum = false;
  bool excludes_maximum = false;
  std::vector<Choice> choices;
  std::vector<Form> forms;
  std::vector<std::string> words;  ///< that are accepted too, such as "all"
  std::size_t num_elements = 0;    ///< lists: exactly so many; 0: any number but none
  bool allows_single = false;
  std::string elements = {};  ///< texts: what the list is of
  std::string example = {};   ///< texts: such a list; sizes: one that is usual

  std::vector<std::string> choice_names() const;
  std::vector<std::string> form_names() const;
};

/// A rule whose choices stand for the values of an enum. A value that several stand for is shown as the first.
template <class Enum>
struct EnumRule : Rule {
  std::vector<Enum> values;  ///< of `choices`, one each

  EnumRule(ValueKind its_kind, std::vector<EnumChoice<Enum>> its_choices) {
    kind = its_kind;
    for (EnumChoice<Enum>& each : its_choices) {
      values.push_back(each.value);
      choices.push_back({std::move(each.name), std::move(each.help), std::move(each.synonyms)});
    }
  }

  Enum value_of(std::string_view name) const {
    const auto has_name = [&](const Choice& each) { return each.name == name; };
    return values.at(std::find_if(choices.begin(), choices.end(), has_name) - choices.begin());
  }
  const std::string& name_of(Enum value) const {
    return choices.at(std::find(values.begin(), values.end(), value) - values.begin()).name;
  }
};

/// `{every: 2}`: a key, and what may be written behind it.
struct Form {
  std::string name;
  std::string help;
  Rule rule;
  std::vector<std::string> synonyms = {};  ///< what other programs call it, for suggestions
};

Rule boolean();
Rule integer(std::int64_t minimum, std::int64_t maximum = std::numeric_limits<std::int32_t>::max());
/// That 32 bits hold.
Rule any_integer();
Rule integer_or(std::string word, std::int64_t minimum);
Rule integer_or(std::vector<std::string> words, std::int64_t minimum);
Rule number();
/// That f32 holds.
Rule number_of_f32();
Rule number_at_least(double minimum);
Rule number_above(double minimum);
/// In [minimum, maximum).
Rule number_below(double minimum, double maximum);
/// In (0, maximum].
Rule fraction(double maximum = 1.0);
Rule text();
Rule size_of_memory(double minimum = 1, std::string example = "2GiB");
Rule interval();
Rule pair(std::int64_t minimum);
Rule sides(std::int64_t minimum);
Rule integers(std::int64_t minimum);
Rule integer_or_integers(std::int64_t minimum);
Rule numbers(Rule element, std::size_t num_elements = 0);
Rule number_or_numbers(Rule element);
/// Layers by path or kind, or the word alone.
Rule layer_patterns(std::string word = "");
Rule tensor_names();
/// A list of `elements`, such as `example`.
Rule texts(std::string elements, std::string example);
Rule text_or_texts(std::string elements, std::string example);
Rule rewrites();
Rule layer_list();
Rule named_values();
Rule named_blocks();
Rule loss_list();
Rule named_columns();
Rule maps_of_names();
Rule transform_list();
Rule classes_of_masks();
/// `element`, or such a number for each layer group.
Rule number_or_group_numbers(Rule element);
Rule layer_groups();
Rule frozen_layers();
Rule stage_list();
template <class Enum>
EnumRule<Enum> choice(std::vector<EnumChoice<Enum>> choices) {
  return {ValueKind::choice, std::move(choices)};
}
/// One of them, or a list.
template <class Enum>
EnumRule<Enum> choices(std::vector<EnumChoice<Enum>> its_choices) {
  return {ValueKind::choices, std::move(its_choices)};
}
template <class Enum>
EnumRule<Enum> numbered_choice(std::vector<EnumChoice<Enum>> choices) {
  return {ValueKind::numbered, std::move(choices)};
}
/// One of the words, or a map of one of the keys.
template <class Enum>
EnumRule<Enum> choice_or_form(std::vector<EnumChoice<Enum>> choices, const std::vector<Form>& forms) {
  EnumRule<Enum> rule(ValueKind::form, std::move(choices));
  rule.forms = forms;
  return rule;
}

/// "an integer from 1 to 16", "an integer of at least 1".
std::string expectation_of(const Rule& rule);
/// The same with bounds that only say what the program can hold: "an integer from 1 to 2147483647".
std::string whole_expectation_of(const Rule& rule);

/// A bound without a fraction where it has none: "10", "0.5".
std::string bound_text(double bound);

/// "integer", as reference pages name the type.
std::string type_name(const Rule& rule);

}  // namespace trainer
