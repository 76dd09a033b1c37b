#include "engine/config/fields/rule.h"

#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/config/text/number_text.h"

namespace trainer {
namespace {

Rule rule_of(ValueKind kind) {
  Rule rule;
  rule.kind = kind;
  return rule;
}

/// 2^31 − 1 and 2^63 − 1 only say what the program can hold: no limit to who stays below them.
constexpr auto least_unsaid = static_cast<double>(std::numeric_limits<std::int32_t>::max());

std::string range_text(const Rule& rule) {
  const bool has_minimum = std::isfinite(rule.minimum);
  const bool has_maximum = std::isfinite(rule.maximum);
  if (has_minimum && has_maximum) {
    if (!rule.excludes_minimum && !rule.excludes_maximum) {
      return fmt::format(" from {} to {}", bound_text(rule.minimum), bound_text(rule.maximum));
    }
    return fmt::format(" {} {} and {} {}", rule.excludes_minimum ? "above" : "of at least", bound_text(rule.minimum),
                       rule.excludes_maximum ? "below" : "at most", bound_text(rule.maximum));
  }
  if (has_minimum)
    return fmt::format(" {} {}", rule.excludes_minimum ? "above" : "of at least", bound_text(rule.minimum));
  return "";
}

}  // namespace

std::string bound_text(double bound) {
  if (bound == std::floor(bound) && std::abs(bound) < 9e15) return fmt::format("{}", static_cast<std::int64_t>(bound));
  return number_text(bound);
}

std::vector<std::string> Rule::choice_names() const {
  std::vector<std::string> names;
  for (const Choice& each : choices) names.push_back(each.name);
  return names;
}

std::vector<std::string> Rule::form_names() const {
  std::vector<std::string> names;
  for (const Form& each : forms) names.push_back(each.name);
  return names;
}

Rule boolean() { return rule_of(ValueKind::boolean); }
Rule integer(std::int64_t minimum, std::int64_t maximum) {
  Rule rule = rule_of(ValueKind::integer);
  rule.minimum = static_cast<double>(minimum);
  rule.maximum = static_cast<double>(maximum);
  return rule;
}
Rule any_integer() { return integer(std::numeric_limits<std::int32_t>::min()); }
Rule integer_or(std::string word, std::int64_t minimum) {
  return integer_or(std::vector<std::string>{std::move(word)}, minimum);
}
Rule integer_or(std::vector<std::string> words, std::int64_t minimum) {
  Rule rule = integer(minimum);
  rule.words = std::move(words);
  return rule;
}
Rule number_of_f32() {
  constexpr double most = 3.4e38;  // a little less, so that it can be said in a few letters
  Rule rule = number();
  rule.maximum = most;
  rule.minimum = -most;
  return rule;
}
Rule number() { return rule_of(ValueKind::number); }
Rule number_at_least(double minimum) {
  Rule rule = number();
  rule.minimum = minimum;
  return rule;
}
Rule number_above(double minimum) {
  Rule rule = number_at_least(minimum);
  rule.excludes_minimum = true;
  return rule;
}
Rule number_below(double minimum, double maximum) {
  Rule rule = number_at_least(minimum);
  rule.maximum = maximum;
  rule.excludes_maximum = true;
  return rule;
}
Rule fraction(double maximum) {
  Rule rule = number_above(0.0);
  rule.maximum = maximum;
  return rule;
}
Rule text() { return rule_of(ValueKind::text); }
Rule size_of_memory(double minimum, std::string example) {
  Rule rule = rule_of(ValueKind::size);
  rule.example = std::move(example);
  rule.minimum = minimum;
  return rule;
}
Rule interval() {
  Rule rule = integer(0);
  rule.kind = ValueKind::interval;
  return rule;
}
Rule pair(std::int64_t minimum) {
  Rule rule = integer(minimum);
  rule.kind = ValueKind::pair;
  return rule;
}
Rule sides(std::int64_t minimum) {
  Rule rule = integer(minimum);
  rule.kind = ValueKind::sides;
  return rule;
}
Rule integers(std::int64_t minimum) {
  Rule rule = integer(minimum);
  rule.kind = ValueKind::integers;
  return rule;
}
Rule integer_or_integers(std::int64_t minimum) {
  Rule rule = integers(minimum);
  rule.allows_single = true;
  return rule;
}
Rule numbers(Rule element, std::size_t num_elements) {
  element.kind = ValueKind::numbers;
  element.num_elements = num_elements;
  return element;
}
Rule number_or_numbers(Rule element) {
  element.kind = ValueKind::numbers;
  element.allows_single = true;
  return element;
}
Rule layer_patterns(std::string word) {
  Rule rule = rule_of(ValueKind::patterns);
  if (!word.empty()) rule.words = {std::move(word)};
  return rule;
}
Rule tensor_names() { return texts("names of tensors, `*` for anything", "[fc.*, conv1.bias]"); }
Rule texts(std::string elements, std::string example) {
  Rule rule = rule_of(ValueKind::texts);
  rule.elements = std::move(elements);
  rule.example = std::move(example);
  return rule;
}
Rule text_or_texts(std::string elements, std::string example) {
  Rule rule = texts(std::move(elements), std::move(example));
  rule.allows_single = true;
  return rule;
}
Rule rewrites() { return rule_of(ValueKind::rewrites); }
Rule layer_list() { return rule_of(ValueKind::layers); }
Rule named_values() { return rule_of(ValueKind::named_values); }
Rule named_blocks() { return rule_of(ValueKind::blocks); }
Rule loss_list() { return rule_of(ValueKind::losses); }
Rule named_columns() { return rule_of(ValueKind::columns); }
Rule maps_of_names() { return rule_of(ValueKind::name_maps); }
Rule transform_list() { return rule_of(ValueKind::transforms); }
Rule classes_of_masks() { return rule_of(ValueKind::mask_classes); }
Rule number_or_group_numbers(Rule element) {
  element.kind = ValueKind::group_numbers;
  return element;
}
Rule layer_groups() { return rule_of(ValueKind::groups); }
Rule frozen_layers() { return rule_of(ValueKind::frozen); }
Rule stage_list() { return rule_of(ValueKind::stages); }

std::string expectation_of(const Rule& rule) {
  Rule said = rule;
  if (said.maximum >= least_unsaid) said.maximum = std::numeric_limits<double>::infinity();
  if (said.minimum < -least_unsaid - 1) said.minimum = -std::numeric_limits<double>::infinity();
  return whole_expectation_of(said);
}

std::string whole_expectation_of(const Rule& rule) {
  switch (rule.kind) {
    case ValueKind::boolean:
      return "true or false (or on, off)";
    case ValueKind::integer:
      return fmt::format("an integer{}{}", range_text(rule),
                         rule.words.empty() ? "" : fmt::format(", or '{}'", fmt::join(rule.words, "' or '")));
    case ValueKind::number:
      return "a number" + range_text(rule);
    case ValueKind::text:
      return "text";
    case ValueKind::size:
      return fmt::format("a size{}, such as 2GiB, 1500MB or 1048576", rule.minimum > 0 ? " of at least 1 byte" : "");
    case ValueKind::choice:
      return rule.choices.size() == 1 ? fmt::format("'{}'", rule.choices[0].name)
                                      : fmt::format("one of {}", fmt::join(rule.choice_names(), ", "));
    case ValueKind::numbered:
      return fmt::format("{} or {}:N", fmt::join(rule.choice_names(), ", "), rule.choices.back().name);
    case ValueKind::interval:
      return "a number of steps, such as 100, or of epochs, such as 1ep";
    case ValueKind::pair:
      return fmt::format("an integer or [height, width], each{}", range_text(rule));
    case ValueKind::sides:
      return fmt::format("an integer, [height, width] or [top, bottom, left, right], each{}", range_text(rule));
    case ValueKind::integers:
      return fmt::format("{}a list of integers, each{}", rule.allows_single ? "an integer or " : "", range_text(rule));
    case ValueKind::numbers: {
      const std::string how_many = rule.num_elements == 0 ? "numbers" : fmt::format("{} numbers", rule.num_elements);
      const std::string range = range_text(rule).empty() ? "" : ", each" + range_text(rule);
      return fmt::format("{}a list of {}{}", rule.allows_single ? "a number or " : "", how_many, range);
    }
    case ValueKind::patterns:
      return fmt::format("{}a list of layers by path or kind, `*` for anything, such as [features.0, conv2d]",
                         rule.words.empty() ? "" : fmt::format("{}, or ", fmt::join(rule.words, ", ")));
    case ValueKind::texts:
      return fmt::format("{}a list of {}, such as {}", rule.allows_single ? "one or " : "", rule.elements,
                         rule.example);
    case ValueKind::choices:
      return fmt::format("one of {}, or a list of them", fmt::join(rule.choice_names(), ", "));
    case ValueKind::rewrites:
      return R"(a list of [regular expression, replacement], such as [['^module\.', ''], ['\.gamma$', .weight]])";
    case ValueKind::form: {
      std::vector<std::string> forms = rule.choice_names();
      for (const Form& each : rule.forms) forms.push_back(fmt::format("{{{}: {}}}", each.name, type_name(each.rule)));
      return fmt::format("one of {}", fmt::join(forms, ", "));
    }
    case ValueKind::layers:
      return "a list of layers, such as [flatten, linear: {out: 10}]";
    case ValueKind::named_values:
      return "values of parameters, such as {depth: 50}";
    case ValueKind::blocks:
      return "blocks by name, such as {hidden: {parameters: {width: 64}, layers: [linear: {out: \"${width}\"}, relu]}}";
    case ValueKind::losses:
      return "a list of losses with weights, such as [cross_entropy, {type: dice, weight: 0.5}]";
    case ValueKind::columns:
      return "columns by name, such as {Pclass: category, Age: {missing: median}}";
    case ValueKind::name_maps:
      return "maps by name, such as {theirs: {rename: [['^module\\\\.', '']]}}";
    case ValueKind::transforms:
      return "a list of transforms, such as [random_crop: {size: 32, padding: 4}, flip]";
    case ValueKind::mask_classes:
      return "classes by value, such as {0: 0, 255: 1} or {7: 0, 8: 1, others: ignore}";
    case ValueKind::group_numbers:
      return fmt::format(
          "a number{}, or one for each of model.groups: {{slice: [1e-5, 1e-3]}}, {{body: 1e-5, head: "
          "1e-3}}",
          range_text(rule));
    case ValueKind::groups:
      return "groups by name from input to output, such as {body: rest, head: [fc]}";
    case ValueKind::frozen:
      return "layers by path or kind, such as [encoder.*], all, {to: GROUP} or {group: NAME}";
    case ValueKind::stages:
      return "a list of stages, such as [{freeze: [encoder.*], train: {epochs: 1}}, {unfreeze: all}]";
  }
  return "";
}

std::string type_name(const Rule& rule) {
  switch (rule.kind) {
    case ValueKind::boolean:
      return "true or false";
    case ValueKind::integer:
      return rule.words.empty() ? "integer" : fmt::format("integer or {}", fmt::join(rule.words, " or "));
    case ValueKind::number:
      return "number";
    case ValueKind::text:
      return "text";
    case ValueKind::size:
      return "size";
    case ValueKind::choice:
      return fmt::format("{}", fmt::join(rule.choice_names(), ", "));
    case ValueKind::numbered:
      return fmt::format("{}, {}:N", fmt::join(rule.choice_names(), ", "), rule.choices.back().name);
    case ValueKind::interval:
      return "steps or epochs";
    case ValueKind::pair:
      return "integer or [h, w]";
    case ValueKind::sides:
      return "integer, [h, w] or [t, b, l, r]";
    case ValueKind::integers:
      return rule.allows_single ? "integer or list of integers" : "list of integers";
    case ValueKind::numbers:
      return rule.allows_single ? "number or list of numbers" : "list of numbers";
    case ValueKind::patterns:
      return fmt::format("{}list of patterns",
                         rule.words.empty() ? "" : fmt::format("{} or ", fmt::join(rule.words, " or ")));
    case ValueKind::texts:
      return rule.allows_single ? "text or list of texts" : "list of texts";
    case ValueKind::choices:
      return fmt::format("one or a list of {}", fmt::join(rule.choice_names(), ", "));
    case ValueKind::rewrites:
      return "list of [regex, replacement]";
    case ValueKind::form: {
      std::vector<std::string> forms = rule.choice_names();
      for (const Form& each : rule.forms) forms.push_back(fmt::format("{{{}: {}}}", each.name, type_name(each.rule)));
      return fmt::format("{}", fmt::join(forms, ", "));
    }
    case ValueKind::layers:
      return "list of layers";
    case ValueKind::named_values:
      return "values by name";
    case ValueKind::blocks:
      return "blocks by name";
    case ValueKind::losses:
      return "list of losses";
    case ValueKind::columns:
      return "columns by name";
    case ValueKind::name_maps:
      return "maps by name";
    case ValueKind::transforms:
      return "list of transforms";
    case ValueKind::mask_classes:
      return "classes by value";
    case ValueKind::group_numbers:
      return "number, or one a group";
    case ValueKind::groups:
      return "groups by name";
    case ValueKind::frozen:
      return "layers";
    case ValueKind::stages:
      return "list of stages";
  }
  return "";
}

}  // namespace trainer
