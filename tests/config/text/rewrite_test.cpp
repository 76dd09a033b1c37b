#include "engine/config/text/rewrite.h"

#include <catch2/catch.hpp>
#include <chrono>

using namespace trainer;
using Catch::Matchers::Contains;

namespace {

std::string rewritten(const TextPair& texts, std::string text) {
  REQUIRE(mistake_in_rewrite(texts).message.empty());
  Rewrite(texts).apply(text);
  return text;
}

}  // namespace

TEST_CASE("a rewrite replaces every match and knows what its groups matched") {
  CHECK(rewritten({R"(^module\.)", ""}, "module.module.weight") == "module.weight");
  CHECK(rewritten({R"(layer(\d+)\.(\d+))", R"(block\2.stage\1)"}, "layer3.12.bias") == "block12.stage3.bias");
  CHECK(rewritten({"a", "aa"}, "banana") == "baanaanaa");
  CHECK(rewritten({"^", "net."}, "fc.weight") == "net.fc.weight");
  CHECK(rewritten({"x", "y"}, "fc.weight") == "fc.weight");
  CHECK(rewritten({"größe", "size"}, "größe.weight") == "size.weight");
  std::string text = "fc";
  CHECK_FALSE(Rewrite({"x", "y"}).apply(text));
  CHECK(Rewrite({"f", "f"}).apply(text));
}

TEST_CASE("what is wrong with a rewrite is said before it is used") {
  CHECK_THAT(mistake_in_rewrite({"", "a"}).message, Contains("empty"));
  CHECK_THAT(mistake_in_rewrite({"(a", "b"}).message, Contains("'(a' is no regular expression"));
  CHECK_THAT(mistake_in_rewrite({R"((a)\1)", "b"}).message, Contains("no regular expression"));  // a reference back
  CHECK_THAT(mistake_in_rewrite({"(?=a)", "b"}).message, Contains("no regular expression"));     // look-around
  CHECK_THAT(mistake_in_rewrite({"(a)", "$1"}).expectation, Contains("\\1"));
  CHECK_THAT(mistake_in_rewrite({"a", R"(\1)"}).message, Contains("cannot replace"));
  CHECK_THAT(mistake_in_rewrite({R"(((a{500}){500}){500})", "b"}).message, Contains("no regular expression"));
}

TEST_CASE("expressions that other engines take for ever with are applied at once") {
  const auto begin = std::chrono::steady_clock::now();
  const std::string name(Rewrite::longest_result, 'a');
  for (const char* pattern : {"(a+)+$b", "(a|aa)+b", "(a*)*b", "(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)b"})
    CHECK(rewritten({pattern, "x"}, name) == name);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(5));
}
