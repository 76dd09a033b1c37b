#include <catch2/catch.hpp>

#include "engine/report/text/text_table.h"
#include "tests/report/report_samples.h"

using namespace trainer;

namespace {

TextTable table_of_gpus() {
  TextTable table({{"gpu", Align::left},
                   {"name", Align::left, Narrow::gives_way},
                   {"speed", Align::right, Narrow::is_left_out},
                   {"memory"},
                   {"price", Align::right, Narrow::is_left_out}});
  table.add_row({"large-40gb", std::string(30, 'n'), "12.5 TFLOP/s", "1024.00 GiB", "a million"});
  return table;
}

}  // namespace

TEST_CASE(
    "a table that is too wide leaves columns out, the last first, says so, and then cuts the one that gives way") {
  const std::string all = table_of_gpus().render({.color = false, .width = 90}, 0);
  CHECK(all.find("Left out") == std::string::npos);
  CHECK(lines_of(table_of_gpus().render({.color = false, .width = 79}, 0)).back() == "Left out at this width: price.");
  const std::vector<std::string> narrow = lines_of(table_of_gpus().render({.color = false, .width = 61}, 0));
  CHECK(narrow.front() == "gpu         name" + std::string(33, ' ') + "memory");
  CHECK(narrow.back() == "Left out at this width: speed, price.");
  TextTable wide = table_of_gpus();
  wide.add_row({std::string(20, 'g'), "n", "", "", ""});
  const std::vector<std::string> cut = lines_of(wide.render({.color = false, .width = 60}, 0));
  CHECK(cut[1] == "large-40gb            " + std::string(24, 'n') + "…  1024.00 GiB");
  for (const std::string& line : cut) CHECK(display_width(line) <= 60);
}
