#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include "datasets/text/text_stream.h"

using namespace trainer;

namespace {

/// What is shown when the text comes in pieces of `size` bytes, each with '|' behind it.
std::string shown(const std::string& text, std::size_t size, const std::vector<std::string>& stops) {
  TextStream stream(stops);
  std::string all;
  for (std::size_t i = 0; i < text.size() && !stream.has_ended(); i += size)
    all += stream.add(text.substr(i, size)) + '|';
  return all + stream.finish();
}

}  // namespace

TEST_CASE("a text is shown as it comes, by whole characters") {
  CHECK(shown("abc", 1, {}) == "a|b|c|");
  CHECK(shown("a\xC3\xA4z", 1, {}) == "a||\xC3\xA4|z|");
  CHECK(shown("\xE2\x82\xAC!", 1, {}) == "||\xE2\x82\xAC|!|");
  CHECK(shown("\xF0\x9F\x98\x80", 1, {}) == "|||\xF0\x9F\x98\x80|");
  CHECK(shown("\xF0\x9F\x98\x80", 3, {}) == "|\xF0\x9F\x98\x80|");
  // What is no character is not held for ever, nor lost.
  CHECK(shown("a\xF0\x9F", 1, {}) == "a|||\xF0\x9F");
  CHECK(shown("\xC3\xC3z", 1, {}) == "|\xC3|\xC3z|");
  CHECK(shown("\x80\x80\x80\x80z", 1, {}) == "\x80|\x80|\x80|\x80|z|");
}

TEST_CASE("a text ends in front of the first stop, of which nothing is shown") {
  CHECK(shown("one\n\ntwo", 1, {"\n\n"}) == "o|n|e|||");
  CHECK(shown("one\ntwo", 1, {"\n\n"}) == "o|n|e||\nt|w|o|");
  CHECK(shown("aab", 1, {"ab"}) == "|a||");
  CHECK(shown("say END now", 4, {"END"}) == "say ||");
  CHECK(shown("say END now", 100, {"now", "END"}) == "say |");
  CHECK(shown("abcd", 2, {"abce", "bcd"}) == "|a|");
  // The begin of a stop that does not come is text.
  CHECK(shown("a<|end", 1, {"<|end|>"}) == "a||||||<|end");
  TextStream stream({"."});
  CHECK(stream.add("a.b") == "a");
  CHECK(stream.has_ended());
  CHECK(stream.add("c").empty());
  CHECK(stream.finish().empty());
}
