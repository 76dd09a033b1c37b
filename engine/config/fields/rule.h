#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace trainer {

enum class ValueKind : std::uint8_t {
  boolean,   ///< bool
  integer,   ///< int64, or string where it is one of Rule::words
  number,    ///< double
  text,      ///< string
  size,      ///< int64, bytes
  choice,    ///< string, one of Rule::choices
  device,    ///< string: auto, cpu, cuda, cuda:N
  interval,  ///< Interval
  pair,      ///< Pair, also written as one integer
  integers,  ///< vector of int64
  numbers,   ///< vector of double, with Rule::allows_single also written as one number
  patterns,  ///< vector of string: layers by path or kind, `*` for anything; or string where it is one of Rule::words
  form,      ///< string, one of Rule::choices, or Keyed: a map of one key, one of Rule::forms
  layers,    ///< a list of layers; not a Value
};

struct Choice {
  std::string name;
  std::string help;
  std::vector<std::string> synonyms = {};  ///< what other programs call it, for suggestions
};

struct Form;

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

  std::vector<std::string> choice_names() const;
  std::vector<std::string> form_names() const;
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
Rule integer_or(std::string word, std::int64_t minimum);
Rule integer_or(std::vector<std::string> words, std::int64_t minimum);
Rule number();
Rule number_at_least(double minimum);
Rule number_above(double minimum);
/// In [minimum, maximum).
Rule number_below(double minimum, double maximum);
/// In (0, maximum].
Rule fraction(double maximum = 1.0);
Rule text();
Rule size_of_memory(double minimum = 1);
Rule choice(std::vector<Choice> choices);
Rule device_name();
Rule interval();
Rule pair(std::int64_t minimum);
Rule integers(std::int64_t minimum);
Rule numbers(Rule element, std::size_t num_elements = 0);
Rule number_or_numbers(Rule element);
/// Layers by path or kind, or the word alone.
Rule layer_patterns(std::string word = "");
/// One of the words, or a map of one of the keys.
Rule choice_or_form(std::vector<Choice> choices, std::vector<Form> forms);
Rule layer_list();

/// "an integer from 1 to 16", "an integer of at least 1".
std::string expectation_of(const Rule& rule);
/// The same with bounds that only say what the program can hold: "an integer from 1 to 2147483647".
std::string whole_expectation_of(const Rule& rule);

/// A bound without a fraction where it has none: "10", "0.5".
std::string bound_text(double bound);

/// "integer", as reference pages name the type.
std::string type_name(const Rule& rule);

}  // namespace trainer
