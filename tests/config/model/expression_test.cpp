#include "engine/config/model/expression.h"

#include <catch2/catch.hpp>

#include <limits>
#include <map>

using namespace trainer;

namespace {

const std::map<std::string, std::string, std::less<>> known_names = {{"width", "64"},    {"stride", "2"},
                                                                     {"norm", "batch"},  {"biased", "true"},
                                                                     {"dropped", "off"}, {"train.batch_size", "32"},
                                                                     {"half", "0.5"}};

std::variant<std::int64_t, ExpressionMistake> evaluate_known(std::string_view text) {
  return evaluate(text, [](std::string_view name, std::size_t) -> std::optional<std::string> {
    const auto found = known_names.find(name);
    return found == known_names.end() ? std::nullopt : std::optional(found->second);
  });
}

std::int64_t value_of_expression(std::string_view text) {
  const auto result = evaluate_known(text);
  INFO(text);
  if (const auto* mistake = std::get_if<ExpressionMistake>(&result)) FAIL(mistake->message);
  return std::get<std::int64_t>(result);
}

/// "begin-end: message"
std::string mistake_in_expression(std::string_view text) {
  const auto result = evaluate_known(text);
  const auto* found = std::get_if<ExpressionMistake>(&result);
  if (found == nullptr) return "none";
  return std::to_string(found->begin) + "-" + std::to_string(found->end) + ": " + found->message;
}

}  // namespace

TEST_CASE("operators bind as in arithmetic, and equal ones from the left") {
  CHECK(value_of_expression("2 + 3 * 4") == 14);
  CHECK(value_of_expression("(2 + 3) * 4") == 20);
  CHECK(value_of_expression("20 - 5 - 3") == 12);
  CHECK(value_of_expression("64 / 4 / 2") == 8);
  CHECK(value_of_expression("7 % 4 * 2") == 6);
  CHECK(value_of_expression("-3 + 5") == 2);
  CHECK(value_of_expression("2 * -3") == -6);
  CHECK(value_of_expression("- - 3") == 3);
  CHECK(value_of_expression("-7 % 3") == -1);
  CHECK(value_of_expression("7 % -3") == 1);
  CHECK(value_of_expression("-6 / 3") == -2);
}

TEST_CASE("comparisons and words of logic give 1 or 0") {
  CHECK(value_of_expression("1 < 2") == 1);
  CHECK(value_of_expression("2 <= 1") == 0);
  CHECK(value_of_expression("3 >= 3 and 3 != 4") == 1);
  CHECK(value_of_expression("0 or 5") == 1);
  CHECK(value_of_expression("not 5") == 0);
  CHECK(value_of_expression("not not 5") == 1);
  CHECK(value_of_expression("not 1 == 2") == 1);
  CHECK(value_of_expression("1 or 0 and 0") == 1);
  CHECK(value_of_expression("(1 < 2) + (3 > 2)") == 2);
}

TEST_CASE("known_names stand for integers, truths and words") {
  CHECK(value_of_expression("width * stride") == 128);
  CHECK(value_of_expression("train.batch_size / 2") == 16);
  CHECK(value_of_expression("norm == 'batch'") == 1);
  CHECK(value_of_expression("norm != 'batch'") == 0);
  CHECK(value_of_expression("'batch' == norm") == 1);
  CHECK(value_of_expression("norm == 3") == 0);
  CHECK(value_of_expression("biased + 1") == 2);
  CHECK(value_of_expression("biased == 1") == 1);
  CHECK(value_of_expression("width-1") == 63);
}

TEST_CASE("true, on, false and off are words of expressions") {
  CHECK(value_of_expression("biased == true") == 1);
  CHECK(value_of_expression("biased != on") == 0);
  CHECK(value_of_expression("dropped == false") == 1);
  CHECK(value_of_expression("not dropped and biased") == 1);
  CHECK(value_of_expression("dropped == 'off'") == 1);
  CHECK(value_of_expression("biased == 'on'") == 1);
  CHECK(value_of_expression("norm == true") == 0);
  CHECK(value_of_expression("norm == 'on'") == 0);
  CHECK(value_of_expression("if(stride == 2, true, false)") == 1);
  CHECK(value_of_expression("(true or off) and on") == 1);
  CHECK(mistake_in_expression("truth == 1") == "0-5: ");
}

TEST_CASE("functions take as many operands as they are given") {
  CHECK(value_of_expression("min(3)") == 3);
  CHECK(value_of_expression("min(4, 2, 8)") == 2);
  CHECK(value_of_expression("max(4, 2, 8)") == 8);
  CHECK(value_of_expression("if(stride == 2, width, 7)") == 64);
  CHECK(value_of_expression("if(0, 1, if(1, 2, 3))") == 2);
}

TEST_CASE("what is not asked for is not computed, but known_names in it must be there") {
  CHECK(value_of_expression("if(stride > 0, width / stride, 1 / 0)") == 32);
  CHECK(value_of_expression("1 or 1 / 0") == 1);
  CHECK(value_of_expression("0 and norm + 1") == 0);
  CHECK(mistake_in_expression("0 and nothing") == "6-13: ");
}

TEST_CASE("64 bits hold a result, or it is a mistake") {
  const std::string largest = std::to_string(std::numeric_limits<std::int64_t>::max());
  CHECK(value_of_expression(largest) == std::numeric_limits<std::int64_t>::max());
  CHECK(value_of_expression("-" + largest + " - 1") == std::numeric_limits<std::int64_t>::min());
  CHECK(mistake_in_expression(largest + " + 1") == "0-23: this is more than 64 bits hold");
  CHECK(mistake_in_expression("-" + largest + " - 2") == "0-24: this is more than 64 bits hold");
  CHECK(mistake_in_expression(largest + " * 2") == "0-23: this is more than 64 bits hold");
  CHECK(mistake_in_expression("-(-" + largest + " - 1)") == "0-27: this is more than 64 bits hold");
  CHECK(mistake_in_expression("(-" + largest + " - 1) / -1") == "0-31: this is more than 64 bits hold");
  CHECK(value_of_expression("(-" + largest + " - 1) % -1") == 0);
}

TEST_CASE("a mistake is told with its place") {
  CHECK(mistake_in_expression("10 / 4") == "0-6: 10 / 4 leaves a remainder of 2");
  CHECK(mistake_in_expression("3 + 1 % 0") == "4-9: this divides by 0");
  CHECK(mistake_in_expression("norm + 1") == "0-4: 'batch' is not an integer");
  CHECK(mistake_in_expression("2 * half") == "4-8: '0.5' is not an integer");
  CHECK(mistake_in_expression("nothing") == "0-7: ");
  CHECK(mistake_in_expression("1 +") == "3-4: the expression ends too early");
  CHECK(mistake_in_expression(" ") == "1-2: the expression is empty");
  CHECK(mistake_in_expression("(1") == "2-3: the expression ends without its ')'");
  CHECK(mistake_in_expression("1 = 1") == "2-3: '=' compares nothing");
  CHECK(mistake_in_expression("1 < 2 < 3") == "6-7: comparisons do not stand in a row");
  CHECK(mistake_in_expression("and 1") == "0-3: 'and' stands where an operand is expected");
  CHECK(mistake_in_expression("1 ü") == "2-3: 'ü' is not expected here");
}

TEST_CASE("length and depth are bounded") {
  CHECK(mistake_in_expression(std::string(2'000, '1')).find("an expression of more than 1000 bytes") !=
        std::string::npos);
  CHECK(mistake_in_expression(std::string(500, '(') + "1").find("nest more than 32 deep") != std::string::npos);
  CHECK(value_of_expression(std::string(900, '-') + "1") == 1);
}
