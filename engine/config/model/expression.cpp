#include "engine/config/model/expression.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "engine/config/text/nearest_word.h"
#include "engine/config/text/number_text.h"
#include "engine/config/text/utf8_text.h"

namespace trainer {
namespace {

bool is_name_letter(char letter) {
  const auto code = static_cast<unsigned char>(letter);
  return code < 0x80 && (std::isalnum(code) != 0 || letter == '_');
}
bool is_numeral(char letter) { return letter >= '0' && letter <= '9'; }

/// A number, or a word, which only == and != take.
struct Term {
  std::variant<std::int64_t, std::string> value;
  std::size_t begin = 0, end = 0;
};

/// Recursive descent; mistakes are thrown. `skips_` is above 0 where the result is not asked for.
class ExpressionParser {
 public:
  ExpressionParser(std::string_view text, const NameLookup& lookup) : text_(text), lookup_(lookup) {}

  std::int64_t parse() {
    if (text_.size() > longest_expression)
      fail(0, text_.size(), fmt::format("an expression of more than {} bytes", longest_expression));
    const Term result = disjunction();
    if (skip_blanks() < text_.size()) {
      if (peek_is("=")) fail(at_, at_ + 1, "'=' compares nothing", "'=='");
      fail(at_, at_ + 1, fmt::format("'{}' is not expected here", shown(at_)),
           "an operator, such as + - * / % == < and or");
    }
    return number_of(result);
  }

 private:
  [[noreturn]] static void fail(std::size_t begin, std::size_t end, std::string message, std::string expectation = "") {
    throw ExpressionMistake{begin, std::max(end, begin + 1), std::move(message), std::move(expectation)};
  }

  /// One letter as it may be printed.
  std::string shown(std::size_t at) const {
    std::size_t end = at + 1;
    while (end < text_.size() && (static_cast<unsigned char>(text_[end]) & 0xC0U) == 0x80U) ++end;
    return printable(text_.substr(at, end - at));
  }

  std::size_t skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
    return at_;
  }
  bool peek_is(std::string_view token) {
    skip_blanks();
    return text_.substr(at_, token.size()) == token;
  }
  bool take(std::string_view token) {
    if (!peek_is(token)) return false;
    at_ += token.size();
    return true;
  }
  /// `and`, `or`, `not`: words that end where they end.
  bool take_word(std::string_view word) {
    if (!peek_is(word)) return false;
    const std::size_t end = at_ + word.size();
    if (end < text_.size() && (is_name_letter(text_[end]) || text_[end] == '.')) return false;
    at_ = end;
    return true;
  }
  void expect(char token, std::string_view what) {
    if (take(std::string_view(&token, 1))) return;
    const bool is_end = at_ >= text_.size();
    fail(std::min(at_, text_.size()), at_ + 1,
         is_end ? fmt::format("the expression ends without its '{}'", token)
                : fmt::format("'{}' is not expected here", shown(at_)),
         fmt::format("'{}' {}", token, what));
  }

  std::int64_t number_of(const Term& term) const {
    if (const auto* number = std::get_if<std::int64_t>(&term.value)) return *number;
    if (skips_ > 0) return 0;
    const std::string& word = std::get<std::string>(term.value);
    if (const std::optional<bool> truth = truth_of_word(word)) return *truth ? 1 : 0;
    fail(term.begin, term.end, fmt::format("'{}' is not an integer", shortened(word)),
         "an integer; words can be compared with == and !=");
  }

  Term term(std::int64_t value, std::size_t begin) const { return {value, begin, at_}; }

  /// A result, and that it is one.
  Term checked(bool overflows, std::int64_t value, std::size_t begin) const {
    if (overflows && skips_ == 0) fail(begin, at_, "this is more than 64 bits hold", "a smaller number");
    return term(overflows ? 0 : value, begin);
  }

  template <class Parse>
  Term skipped(bool skips, const Parse& parse) {
    skips_ += skips ? 1 : 0;
    Term result = parse();
    skips_ -= skips ? 1 : 0;
    return result;
  }

  Term disjunction() {
    Term left = conjunction();
    while (take_word("or")) {
      const bool is_true = number_of(left) != 0;
      const Term right = skipped(is_true, [&] {
        Term term_of = conjunction();
        term_of.value = number_of(term_of);
        return term_of;
      });
      left = term(is_true || number_of(right) != 0 ? 1 : 0, left.begin);
    }
    return left;
  }

  Term conjunction() {
    Term left = negation();
    while (take_word("and")) {
      const bool is_true = number_of(left) != 0;
      const Term right = skipped(!is_true, [&] {
        Term term_of = negation();
        term_of.value = number_of(term_of);
        return term_of;
      });
      left = term(is_true && number_of(right) != 0 ? 1 : 0, left.begin);
    }
    return left;
  }

  Term negation() {
    const std::size_t begin = skip_blanks();
    bool negates = false, is_any = false;
    while (take_word("not")) {
      negates = !negates;
      is_any = true;
    }
    Term operand = comparison();
    if (!is_any) return operand;
    return term((number_of(operand) != 0) != negates ? 1 : 0, begin);
  }

  /// "" where none comes.
  std::string_view take_comparison() {
    constexpr std::array<std::string_view, 6> comparisons{"==", "!=", "<=", ">=", "<", ">"};
    for (const std::string_view each : comparisons)
      if (take(each)) return each;
    return {};
  }

  Term comparison() {
    Term left = sum();
    const std::string_view comparison = take_comparison();
    if (comparison.empty()) return left;
    const Term right = sum();
    const std::size_t second = skip_blanks();
    if (!take_comparison().empty())
      fail(second, at_, "comparisons do not stand in a row", "parentheses, or 'and' between two comparisons");
    return term(compare(left, comparison, right) ? 1 : 0, left.begin);
  }

  bool compare(const Term& left, std::string_view comparison, const Term& right) const {
    const bool asks_equality = comparison == "==" || comparison == "!=";
    const auto is_word = [](const Term& each) {
      const auto* word = std::get_if<std::string>(&each.value);
      return word != nullptr && !truth_of_word(*word);
    };
    if (asks_equality && (is_word(left) || is_word(right))) {
      const auto text_of = [](const Term& each) {
        const auto* number = std::get_if<std::int64_t>(&each.value);
        return number != nullptr ? fmt::format("{}", *number) : std::get<std::string>(each.value);
      };
      return (text_of(left) == text_of(right)) == (comparison == "==");
    }
    const std::int64_t a = number_of(left), b = number_of(right);
    if (comparison == "==") return a == b;
    if (comparison == "!=") return a != b;
    if (comparison == "<") return a < b;
    if (comparison == "<=") return a <= b;
    return comparison == ">" ? a > b : a >= b;
  }

  Term sum() {
    Term left = product();
    for (;;) {
      const bool adds = take("+");
      if (!adds && !take("-")) return left;
      const Term right = product();
      const std::int64_t a = number_of(left), b = number_of(right);
      std::int64_t result = 0;
      const bool overflows = adds ? __builtin_add_overflow(a, b, &result) : __builtin_sub_overflow(a, b, &result);
      left = checked(overflows, result, left.begin);
    }
  }

  Term product() {
    Term left = signed_operand();
    for (;;) {
      skip_blanks();
      const char sign = at_ < text_.size() ? text_[at_] : '\0';
      if (sign != '*' && sign != '/' && sign != '%') return left;
      ++at_;
      const Term right = signed_operand();
      const std::int64_t a = number_of(left), b = number_of(right);
      left = sign == '*' ? multiply(a, b, left.begin) : divide(a, sign == '/', b, left.begin);
    }
  }

  Term multiply(std::int64_t a, std::int64_t b, std::size_t begin) const {
    std::int64_t result = 0;
    const bool overflows = __builtin_mul_overflow(a, b, &result);
    return checked(overflows, result, begin);
  }

  Term divide(std::int64_t a, bool takes_quotient, std::int64_t b, std::size_t begin) const {
    if (skips_ > 0) return term(0, begin);
    if (b == 0) fail(begin, at_, "this divides by 0", "another divisor");
    if (b == -1) return takes_quotient ? multiply(a, b, begin) : term(0, begin);
    if (takes_quotient && a % b != 0)
      fail(begin, at_, fmt::format("{} / {} leaves a remainder of {}", a, b, a % b),
           "a division without remainder; (a - a % b) / b rounds towards 0");
    return term(takes_quotient ? a / b : a % b, begin);
  }

  Term signed_operand() {
    const std::size_t begin = skip_blanks();
    bool is_negative = false, is_any = false;
    while (take("-")) {
      is_negative = !is_negative;
      is_any = true;
    }
    Term operand = primary();
    if (!is_any) return operand;
    const std::int64_t value = number_of(operand);
    return is_negative ? multiply(value, -1, begin) : term(value, begin);
  }

  Term primary() {
    if (++depth_ > deepest_expression)
      fail(at_, at_ + 1, fmt::format("operands nest more than {} deep", deepest_expression));
    Term result = operand();
    --depth_;
    return result;
  }

  Term operand() {
    const std::size_t begin = skip_blanks();
    if (begin >= text_.size())
      fail(begin, begin + 1,
           text_.find_first_not_of(" \t") == std::string_view::npos ? "the expression is empty"
                                                                    : "the expression ends too early",
           "a number or a name");
    const char first = text_[begin];
    if (take("(")) {
      Term inner = disjunction();
      expect(')', "behind what stands in parentheses");
      inner.begin = begin;
      inner.end = at_;
      return inner;
    }
    if (first == '\'') return quoted_word(begin);
    if (is_numeral(first)) return literal(begin);
    if (!is_name_letter(first))
      fail(begin, begin + 1, fmt::format("'{}' is not expected here", shown(begin)), "a number or a name");
    return name(begin);
  }

  Term quoted_word(std::size_t begin) {
    const std::size_t end = text_.find('\'', begin + 1);
    if (end == std::string_view::npos) fail(begin, text_.size(), "this word has no second quote", "'word'");
    at_ = end + 1;
    return {std::string(text_.substr(begin + 1, end - begin - 1)), begin, at_};
  }

  Term literal(std::size_t begin) {
    while (at_ < text_.size() && (is_name_letter(text_[at_]) || text_[at_] == '.')) ++at_;
    const auto number = read_integer(text_.substr(begin, at_ - begin));
    if (const auto* mistake = std::get_if<NumberMistake>(&number))
      fail(begin, at_,
           fmt::format("'{}' {}", shortened(text_.substr(begin, at_ - begin)),
                       mistake->message.empty() ? "is not an integer" : mistake->message),
           mistake->expectation.empty() ? "an integer" : mistake->expectation);
    return term(std::get<std::int64_t>(number), begin);
  }

  Term name(std::size_t begin) {
    while (at_ < text_.size() && (is_name_letter(text_[at_]) || text_[at_] == '.')) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (peek_is("(")) return call(word, begin);
    at_ = begin + word.size();
    if (word == "and" || word == "or" || word == "not")
      fail(begin, at_, fmt::format("'{}' stands where an operand is expected", word), "a number or a name");
    if (!is_name(word)) fail(begin, at_, fmt::format("'{}' is no name", shortened(word)), "a name such as width");
    if (const std::optional<bool> truth = truth_of_word(word)) return term(*truth ? 1 : 0, begin);
    std::optional<std::string> text = lookup_(word, begin);
    if (!text) fail(begin, at_, "");
    const auto number = read_integer(*text);
    if (const auto* integer = std::get_if<std::int64_t>(&number)) return term(*integer, begin);
    return {std::move(*text), begin, at_};
  }

  Term call(std::string_view function, std::size_t begin) {
    const std::size_t name_end = begin + function.size();
    if (function != "min" && function != "max" && function != "if") {
      const std::vector<std::string> functions{"min", "max", "if"};
      const std::string near(nearest(function, functions));
      fail(begin, name_end, fmt::format("there is no function '{}'", shortened(function)),
           near.empty() ? "min, max or if" : fmt::format("min, max or if, perhaps {}", near));
    }
    take("(");
    if (function == "if") return choice_of(begin);
    std::vector<std::int64_t> values;
    do {
      values.push_back(number_of(disjunction()));
    } while (take(","));
    expect(')', fmt::format("behind what {} is taken of", function));
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    return term(function == "min" ? *least : *most, begin);
  }

  Term choice_of(std::size_t begin) {
    const bool holds = number_of(disjunction()) != 0;
    const auto branch = [&](bool is_taken) {
      expect(',', "between if(condition, then, else)");
      return skipped(!is_taken, [&] {
        Term result = disjunction();
        result.value = number_of(result);
        return result;
      });
    };
    const Term then = branch(holds);
    const Term otherwise = branch(!holds);
    expect(')', "behind if(condition, then, else)");
    return term(number_of(holds ? then : otherwise), begin);
  }

  std::string_view text_;
  const NameLookup& lookup_;
  std::size_t at_ = 0;
  int skips_ = 0, depth_ = 0;
};

}  // namespace

bool is_name(std::string_view text) {
  bool begins = true;
  for (const char letter : text) {
    if (letter == '.') {
      if (begins) return false;
      begins = true;
      continue;
    }
    if (!is_name_letter(letter)) return false;
    begins = false;
  }
  return !begins && !is_numeral(text.front());
}

std::optional<bool> truth_of_word(std::string_view text) {
  if (text == "true" || text == "on") return true;
  if (text == "false" || text == "off") return false;
  return std::nullopt;
}

std::variant<std::int64_t, ExpressionMistake> evaluate(std::string_view text, const NameLookup& lookup) {
  try {
    return ExpressionParser(text, lookup).parse();
  } catch (const ExpressionMistake& mistake) {
    return mistake;
  }
}

}  // namespace trainer
