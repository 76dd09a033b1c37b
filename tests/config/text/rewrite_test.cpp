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

TEST_CASE("a rewrite of one text by another is undone, and no other") {
  const auto there_and_back = [](const TextPair& texts, const std::string& name) {
    const std::optional<TextPair> undone = backwards(texts);
    REQUIRE(undone.has_value());
    return rewritten(texts, rewritten(*undone, name));
  };
  CHECK(rewritten(*backwards({R"(^module\.)", ""}), "fc.weight") == "module.fc.weight");
  CHECK(rewritten(*backwards({"^", "net."}), "net.fc.weight") == "fc.weight");
  CHECK(rewritten(*backwards({R"(\.kernel$)", ".weight"}), "a.weight.weight") == "a.weight.kernel");
  CHECK(rewritten(*backwards({R"(\.w$)", ""}), "a") == "a.w");
  CHECK(rewritten(*backwards({R"(a\\b)", R"(c\\d)"}), R"(c\d)") == R"(a\b)");
  for (const TextPair& texts : {TextPair{R"(^module\.)", ""}, {"gamma", "weight"}, {R"(\[0\]$)", ".0"}})
    CHECK(there_and_back(texts, "x.weight.0") == "x.weight.0");
  for (const TextPair& texts : {TextPair{R"(^(?:model\.)?)", ""},
                                {"a.b", "c"},
                                {R"(layer(\d))", R"(l\1)"},
                                {"gone", ""},
                                {R"(\d)", "x"},
                                {"a|b", "c"},
                                {"^all$", ""}})
    CHECK_FALSE(backwards(texts).has_value());
}
