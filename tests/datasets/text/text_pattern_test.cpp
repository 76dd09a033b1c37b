#include "datasets/text/text_pattern.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/errors.h"
#include "tests/refusal.h"

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

using Pieces = std::vector<std::string>;

Pieces pieces_of(const std::vector<std::string>& expressions, std::string_view text) {
  const TextPattern pattern(expressions);
  PatternMatcher matcher(pattern);
  Pieces pieces;
  matcher.for_each_piece(text, [&](std::string_view piece) { pieces.emplace_back(piece); });
  return pieces;
}

Pieces by_gpt2(std::string_view text) { return pieces_of({std::string(gpt2_expression)}, text); }
Pieces by_llama3(std::string_view text) { return pieces_of({std::string(llama3_expression)}, text); }

std::string expression_refusal(const std::string& expression) {
  return refusal_of<DataError>([&] { pieces_of({expression}, "a"); });
}

}  // namespace

TEST_CASE("GPT-2's expression cuts words with the blank in front of them") {
  CHECK(by_gpt2("Hello world, it's 2024!") == Pieces{"Hello", " world", ",", " it", "'s", " 2024", "!"});
  CHECK(by_gpt2("a   b\n\n c  ") == Pieces{"a", "  ", " b", "\n\n", " c", "  "});
  CHECK(by_gpt2("I'LL we'll") == Pieces{"I", "'", "LL", " we", "'ll"});
  CHECK(by_gpt2("x\t\ty") == Pieces{"x", "\t", "\t", "y"});
  CHECK(by_gpt2("你好 мир") == Pieces{"你好", " мир"});
  CHECK(by_gpt2("").empty());
  CHECK(by_gpt2(" ") == Pieces{" "});
}

TEST_CASE("Llama 3's expression cuts numbers by three digits and keeps line ends with what is in front of them") {
  CHECK(by_llama3("1234567") == Pieces{"123", "456", "7"});
  CHECK(by_llama3("I'LL we'll") == Pieces{"I", "'LL", " we", "'ll"});
  CHECK(by_llama3("end.\n\n  next") == Pieces{"end", ".\n\n", " ", " next"});
  CHECK(by_llama3("a \n \n b") == Pieces{"a", " \n \n", " b"});
  CHECK(by_llama3("(word)") == Pieces{"(word", ")"});
  CHECK(by_llama3("it'\u017Fx") == Pieces{"it", "'\u017F", "x"});  // a long s is an s, cases aside
}

TEST_CASE("White space is Unicode's, without U+180E") {
  CHECK(by_gpt2("a\u180E\u180E\u00A0\u3000b") == Pieces{"a", "\u180E\u180E", "\u00A0", "\u3000", "b"});
}

TEST_CASE("A byte that is no UTF-8 is a piece of its own") {
  CHECK(by_gpt2("ab\xFF\xFE"
                "cd") == Pieces{"ab", "\xFF", "\xFE", "cd"});
  // A sequence that is cut off, an overlong one, a surrogate, one beyond U+10FFFF.
  CHECK(by_gpt2("\xE4\xBD") == Pieces{"\xE4", "\xBD"});
  CHECK(by_gpt2("\xC0\xAF") == Pieces{"\xC0", "\xAF"});
  CHECK(by_gpt2("\xED\xA0\x80") == Pieces{"\xED", "\xA0", "\x80"});
  CHECK(by_gpt2("\xF4\x90\x80\x80") == Pieces{"\xF4", "\x90", "\x80", "\x80"});
  // Between them are texts of their own: blanks at an end stay together.
  CHECK(by_gpt2("a  \xFF b") == Pieces{"a", "  ", "\xFF", " b"});
}

TEST_CASE("What an expression leaves out is a piece, too, and empty matches only cut") {
  CHECK(pieces_of({R"(\d+)"}, "ab12cd3") == Pieces{"ab", "12", "cd", "3"});
  CHECK(pieces_of({"x*"}, "axxb") == Pieces{"a", "xx", "b"});
  CHECK(pieces_of({"(?=ä)"}, "aäöä") == Pieces{"a", "äö", "ä"});
  CHECK(pieces_of({}, "a b") == Pieces{"a b"});
}

TEST_CASE("The next expression cuts what the one before left in one piece") {
  CHECK(pieces_of({R"(\p{N})", std::string(gpt2_expression)}, "ab 12 c") == Pieces{"ab", " ", "1", "2", " c"});
  CHECK(pieces_of({R"(\p{N}+)", R"(\p{N}{1,3})"}, "1234x") == Pieces{"123", "4", "x"});
}

TEST_CASE("^ and $ stand at each line") { CHECK(pieces_of({R"(^.+$)"}, "ab\ncd") == Pieces{"ab", "\n", "cd"}); }

TEST_CASE("Long runs are one piece and take no longer than their length") {
  const std::string blanks(std::size_t{3} << 20U, ' '), letters(std::size_t{3} << 20U, 'a');
  CHECK(by_gpt2(blanks + "x") == Pieces{blanks.substr(1), " x"});
  CHECK(by_llama3(blanks + "\nx") == Pieces{blanks + "\n", "x"});
  CHECK(by_llama3(blanks + "x") == Pieces{blanks.substr(1), " x"});
  CHECK(by_gpt2(letters) == Pieces{letters});
}

TEST_CASE("Expressions that are none, or mean something else elsewhere, are refused with their place") {
  CHECK_THAT(expression_refusal("a(b"), Contains("regular expression a(b, at byte 3: missing closing parenthesis"));
  CHECK_THAT(expression_refusal(R"(a\w+)"), Contains(R"(at byte 1: \w is not supported)"));
  CHECK_THAT(expression_refusal(R"([a-z&&[^b]])"), Contains("at byte 4: && is not supported"));
  CHECK_THAT(expression_refusal(R"(\p{N}{1,3}+)"), Contains("at byte 9: }+ behind a count is not supported"));
  CHECK_THAT(expression_refusal(R"(\p{N}{,3})"), Contains("at byte 5: {, is not supported"));
  CHECK_THAT(expression_refusal("(?m:.)+"), Contains("at byte 0: of flags (?i: alone is supported"));
  CHECK_THAT(expression_refusal("(*UCP)a"), Contains("at byte 0: (* is not supported"));
  CHECK_THAT(expression_refusal(R"([\p{L}[\p{N}]]+)"), Contains("at byte 6: a class in a class is not supported"));
  CHECK_THAT(expression_refusal("\xFF"), Contains("at byte 0: it is not UTF-8"));
  CHECK_THAT(expression_refusal(std::string(20'000, 'a')), Contains("of 20000 bytes, at most 16384 are read"));
  CHECK_THAT(expression_refusal(""), Contains("is empty"));
  CHECK_THAT(expression_refusal(R"(\C)"), Contains("at byte 2"));
}

TEST_CASE("An expression that goes back and forth without end is given up") {
  const std::string text = std::string(40, 'a') + "!";
  CHECK_THAT(refusal_of<DataError>([&] { pieces_of({"(a+)+[bc]"}, text); }), Contains("cannot be matched from byte 0"));
}
