#include "engine/report/text/shell_words.h"

#include <catch2/catch.hpp>

using namespace trainer;

TEST_CASE("words are quoted where a shell would take them apart") {
  CHECK(shell_words({"train.batch_size=48", "output=runs/a"}) == "train.batch_size=48 output=runs/a");
  CHECK(shell_words({"data.mean=[0.1, 0.2]"}) == "'data.mean=[0.1, 0.2]'");
  CHECK(shell_words({"name=it's"}) == "'name=it'\\''s'");
  CHECK(shell_words({""}) == "''");
  CHECK(shell_words({}).empty());
  CHECK(shell_words({"a\x1b[5m'\\\n"}) == "$'a\\x1b[5m\\x27\\x5c\\x0a'");
  CHECK(shell_words({"é\x80"}) == "$'\\xc3\\xa9\\x80'");
}

TEST_CASE("a long command is folded so that it can still be pasted") {
  CHECK(folded_shell_words({"aaaa", "bbbb", "cccc"}, 11, "  ") == "aaaa bbbb \\\n  cccc");
  CHECK(folded_shell_words({"aaaa", "bbbb"}, 80, "  ") == "aaaa bbbb");
}

TEST_CASE("an override replaces what was said of its key and what is inside it") {
  const std::vector<std::string> overrides = {"memory.limit=1MiB", "train.batch_size=8", "optimizer.lr=1",
                                              "optimizers=x"};
  CHECK(merged_overrides(overrides, {"memory.limit=2MiB", "optimizer={type: sgd}"}) ==
        std::vector<std::string>{"train.batch_size=8", "optimizers=x", "memory.limit=2MiB", "optimizer={type: sgd}"});
}
