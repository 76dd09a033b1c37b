#include "datasets/text/composed_text.h"

#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

using namespace trainer;

namespace {

std::string composed(const std::string& text) {
  TextComposer composer;
  return std::string(composer.compose(text));
}

}  // namespace

TEST_CASE("Characters and the marks behind them become one, in the order of their classes") {
  const std::pair<std::string, std::string> texts[] = {
      {"e\u0301", "\u00E9"},
      {"ae\u0301i", "a\u00E9i"},
      {"\u00EA\u0301", "\u1EBF"},          // a mark more on what has one
      {"q\u0307\u0323", "q\u0323\u0307"},  // the mark below goes first
      {"d\u0307\u0323 d\u0323\u0307", "\u1E0D\u0307 \u1E0D\u0307"},
      {"\u1112\u1161\u11AB\u1100\u1173\u11AF", "\uD55C\uAE00"},
      {"\u212B\u2126", "\u00C5\u03A9"},  // one character for another
      {"\u0958", "\u0915\u093C"},        // one that is never put together
      {"\u0438\u0306 \u4E2D\u6587 a\u0308", "\u0439 \u4E2D\u6587 \u00E4"},
      {"\u0301e", "\u0301e"},
      {std::string("e\u0301\0e\u0301", 7), std::string("\u00E9\0\u00E9", 5)}};
  for (const auto& [text, expected] : texts) {
    CHECK(composed(text) == expected);
    CHECK(composed(expected) == expected);
  }
}

TEST_CASE("What has nothing to be composed is the text itself") {
  TextComposer composer;
  for (const std::string text : {"", "plain text", "\u00E9t\u00E9 \u00FC \xb5"})
    CHECK(composer.compose(text).data() == text.data());
}

TEST_CASE("Bytes that are no UTF-8 stay, and nothing is composed across them") {
  CHECK(composed("e\u0301\xffo\u0308\xb5") == "\u00E9\xff\u00F6\xb5");
  CHECK(composed("e\xff\u0301") == "e\xff\u0301");
  CHECK(composed("\xe2\x82\u0301e\u0301\xcc") == "\xe2\x82\u0301\u00E9\xcc");
}

TEST_CASE("A text is composed as its parts are that begin with blanks") {
  const std::vector<std::string> fragments = {" ",      "e",      "\u0301", "\u0323", "\u00EA", "\u1112",
                                              "\u1161", "\u11AB", "\u212B", "\u0915", "\u093C", "\xff"};
  std::mt19937 random(5);
  TextComposer composer;
  for (int i = 0; i < 200; ++i) {
    std::string whole, parts;
    for (int part = 0; part < 9; ++part) {
      std::string text = " ";
      for (int j = 0; j < 6; ++j) text += fragments[random() % fragments.size()];
      whole += text;
      parts += composer.compose(text);
    }
    REQUIRE(composer.compose(whole) == parts);
  }
}
