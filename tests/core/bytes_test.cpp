#include "engine/bytes.h"

#include <catch2/catch.hpp>
#include <limits>
#include <string>

namespace trainer::test {

TEST_CASE("Sizes print in binary units with two decimals") {
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(512) == "512 B");
  CHECK(format_bytes(1023) == "1023 B");
  CHECK(format_bytes(1024) == "1.00 KiB");
  CHECK(format_bytes(1536) == "1.50 KiB");
  CHECK(format_bytes(20 << 20) == "20.00 MiB");
  CHECK(format_bytes(9384508129) == "8.74 GiB");
  CHECK(format_bytes(std::int64_t{3} << 40) == "3.00 TiB");
  CHECK(format_bytes(std::int64_t{5} << 50) == "5.00 PiB");
  CHECK(format_bytes(-1536) == "-1.50 KiB");
}

TEST_CASE("A size that would round up to 1024 of a unit prints as one of the next") {
  CHECK(format_bytes((1 << 20) - 1) == "1.00 MiB");
  CHECK(format_bytes((1 << 30) - 1) == "1.00 GiB");
  CHECK(format_bytes(1048570) == "1023.99 KiB");
}

TEST_CASE("The extreme sizes print, too") {
  CHECK(format_bytes(std::numeric_limits<std::int64_t>::max()) == "8192.00 PiB");
  CHECK(format_bytes(std::numeric_limits<std::int64_t>::min()) == "-8192.00 PiB");
}

TEST_CASE("Sizes are read in decimal and binary units, whatever their case") {
  CHECK(parse_bytes("0") == 0);
  CHECK(parse_bytes("4096") == 4096);
  CHECK(parse_bytes("512B") == 512);
  CHECK(parse_bytes("1500MB") == 1500000000);
  CHECK(parse_bytes("2GiB") == std::int64_t{2} << 30);
  CHECK(parse_bytes("2 GiB") == std::int64_t{2} << 30);
  CHECK(parse_bytes("12G") == std::int64_t{12} << 30);
  CHECK(parse_bytes("512m") == std::int64_t{512} << 20);
  CHECK(parse_bytes("2gib") == std::int64_t{2} << 30);
  CHECK(parse_bytes("1.5GiB") == std::int64_t{3} << 29);
  CHECK(parse_bytes("3kB") == 3000);
  CHECK(parse_bytes("3KiB") == 3072);
  CHECK(parse_bytes("4.35kB") == 4350);
  CHECK(parse_bytes("0.1TB") == 100000000000);
  CHECK(parse_bytes("8.7GB") == 8700000000);
  CHECK(parse_bytes("1.0005MiB") == 1049100);  // 1049100.288
  CHECK(parse_bytes("1TB") == 1000000000000);
  CHECK(parse_bytes("1TiB") == std::int64_t{1} << 40);
}

TEST_CASE("A whole number of bytes is read exactly, however large") {
  CHECK(parse_bytes("4611686018427387904") == std::int64_t{1} << 62);
  CHECK(parse_bytes("9007199254740993") == 9007199254740993);  // 2^53 + 1, which no double holds
  CHECK(parse_bytes("4611686018427387905") == std::nullopt);
}

TEST_CASE("What is not a size is not read as one") {
  const char* text = GENERATE("", " ", "GiB", "-1", "-1GiB", "1e3", "1e308GiB", "nan", "inf", "2 Gi B", "2GiBs", "2XB",
                              "1.2.3MiB", "0x10", "5000000TiB", "2GiB 3", "99999999999999999999", "2 GiB ", "+5");
  INFO(text);
  CHECK(parse_bytes(text) == std::nullopt);
}

}  // namespace trainer::test
