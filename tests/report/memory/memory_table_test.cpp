#include <catch2/catch.hpp>

#include "engine/report/memory/memory_table.h"
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

TEST_CASE("layers are told apart by category where there is room, and every column adds up") {
  std::vector<LiveMemory::LayerBytes> layers = {
      {"0 (linear)", 1024, {}}, {"1 (relu)", 4096, {}}, {"2 (linear)", 512, {}}};
  layers[0].by_category = {512, 0, 512, 0, 0, 0, 0, 0};
  layers[1].by_category = {0, 0, 0, 3584, 0, 512, 0, 0};
  layers[2].by_category = {512, 0, 0, 0, 0, 0, 0, 0};
  CHECK(layer_table(layers, 5632, {}) ==
        "  by layer         parameter  optimizer  activation  other     bytes   share\n"
        "  1 (relu)                                 3.50 KiB  512 B  4.00 KiB  72.7 %\n"
        "  0 (linear)           512 B      512 B                     1.00 KiB  18.2 %\n"
        "  2 (linear)           512 B                                   512 B   9.1 %\n"
        "  ──────────────────────────────────────────────────────────────────────────\n"
        "  allocated         1.00 KiB      512 B    3.50 KiB  512 B  5.50 KiB\n"
        "  unaccounted for                                                0 B\n");
  CHECK(layer_table(layers, 5632, {false, 80}).find("  allocated        1.50 KiB    3.50 KiB  512 B  5.50 KiB\n") !=
        std::string::npos);
}
