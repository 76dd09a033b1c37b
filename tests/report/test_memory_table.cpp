#include <catch2/catch.hpp>

#include "engine/report/memory_table.h"
#include "tests/report/report_samples.h"

using namespace trainer;

TEST_CASE("the table by category adds up to allocated") {
  const OutOfMemoryContext context = sample_context();
  CHECK(category_table(context.live.by_category, 32'768, {}) ==
        "  by category          bytes   share\n"
        "  activation       24.00 KiB  75.0 %\n"
        "  parameter         6.00 KiB  18.8 %\n"
        "  input             2.00 KiB   6.2 %\n"
        "  ──────────────────────────────────\n"
        "  allocated        32.00 KiB\n"
        "  unaccounted for        0 B\n");
}

TEST_CASE("bytes that nobody accounts for are shown and not hidden") {
  const OutOfMemoryContext context = sample_context();
  const std::string table = layer_table(context.live.by_layer, 32'768 + 512, {});
  CHECK(table.find("unaccounted for      512 B\n") != std::string::npos);
}

TEST_CASE("a long list of layers ends in one line for the rest, so that the column still adds up") {
  std::vector<LiveMemory::LayerBytes> layers;
  for (int i = 0; i < 40; ++i) layers.push_back({std::to_string(i) + " (relu)", 1024 * (i + 1)});
  const std::int64_t sum = 1024 * 40 * 41 / 2;
  const std::vector<std::string> lines = lines_of(layer_table(layers, sum, {}, 12));
  REQUIRE(lines.size() == 1 + 12 + 1 + 3);
  CHECK(lines[1].find("39 (relu)") != std::string::npos);
  // 1 + … + 28 KiB
  CHECK(lines[13].find("(28 smaller ones)") != std::string::npos);
  CHECK(lines[13].find("406.00 KiB") != std::string::npos);
  CHECK(lines.back().find(" 0 B") != std::string::npos);
}

TEST_CASE("categories are listed largest first") {
  CHECK(category_list(sample_context().live.by_category) == "activation 24.00 KiB, parameter 6.00 KiB, input 2.00 KiB");
  CHECK(category_list({}) == "nothing");
}
