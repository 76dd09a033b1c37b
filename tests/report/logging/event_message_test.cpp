#include "engine/report/logging/event_message.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "engine/report/logging/crc32c.h"
#include "tests/report/logging/event_file.h"

using namespace trainer;

TEST_CASE("the checksum of a record is CRC-32C, whatever its length") {
  CHECK(crc32c("") == 0);
  CHECK(crc32c("123456789") == 0xe3069283);            // the check value of RFC 3720's polynomial
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aa);  // RFC 3720, B.4
  CHECK(crc32c(std::string(32, static_cast<char>(0xff))) == 0x62a8ab43);
  std::string bytes;
  for (int i = 0; i < 100; ++i) {
    CHECK(crc32c(bytes) == slow_crc32c(bytes));
    CHECK(masked_crc32c(bytes) == slow_masked(bytes));
    bytes += static_cast<char>(i * 37 + 200);
  }
}

TEST_CASE("a record is its length, the data, and their checksums") {
  std::string file;
  append_event_record("", file);
  append_event_record(std::string("\0data\n", 6), file);
  CHECK(file.size() == 16 + 16 + 6);
  CHECK(records_of(file) == std::vector<std::string>{"", std::string("\0data\n", 6)});
  std::string damaged = file;
  damaged[30] ^= 1;
  CHECK(records_of(damaged).empty());
}

TEST_CASE("scalars of a step are one event, also of tags that take two bytes for their length") {
  const std::string longer(300, 'x');
  const std::vector<LiveScalar> all = {
      {"loss/train", 0.1}, {longer, -2}, {"nan", std::numeric_limits<double>::quiet_NaN()}, {"", 1e300}};
  ProtobufMessage event;
  write_scalars_event(1.5, 300, all, event);
  const WireMessage read(event.bytes());
  CHECK(read.numbers<double>(1) == std::vector<double>{1.5});
  CHECK(read.integer(2) == 300);
  const std::vector<WireMessage> values = read.message(5).messages(1);
  REQUIRE(values.size() == 4);
  CHECK(values[0].bytes(1) == "loss/train");
  CHECK(values[0].numbers<float>(2) == std::vector<float>{0.1F});
  CHECK(values[1].bytes(1) == longer);
  CHECK(values[1].numbers<float>(2) == std::vector<float>{-2.0F});
  CHECK(std::isnan(values[2].numbers<float>(2).at(0)));
  CHECK(std::isinf(values[3].numbers<float>(2).at(0)));
}

TEST_CASE("texts that are not UTF-8 are written out in events, since readers refuse them") {
  const WireMessage event(text_event(2, 7, "notes", "a\xff\"\n\x1b"));
  const WireMessage value = event.message(5).message(1);
  CHECK(value.bytes(1) == "notes");
  CHECK(value.message(8).integer(1) == 7);  // DT_STRING
  CHECK(value.message(8).bytes(8) == "a\\xff\"\n\\x1b");
  CHECK(value.message(9).message(1).bytes(1) == "text");
}

TEST_CASE("hyperparameters are numbers, booleans and texts in the content of the hparams plugin") {
  using Kind = Hyperparameter::Kind;
  const std::vector<Hyperparameter> all = {{.name = "lr", .kind = Kind::number, .number = 0.5},
                                           {.name = "flag", .kind = Kind::boolean, .number = 1},
                                           {.name = "word", .text = "adam"}};
  const WireMessage value = WireMessage(hyperparameters_event(3, all)).message(5).message(1);
  CHECK(value.bytes(1) == "_hparams_/session_start_info");
  const WireMessage plugin = value.message(9).message(1);
  CHECK(plugin.bytes(1) == "hparams");
  const WireMessage info = plugin.message(2).message(3);
  const std::vector<WireMessage> entries = info.messages(1);
  REQUIRE(entries.size() == 3);
  CHECK(entries[0].bytes(1) == "lr");
  CHECK(entries[0].message(2).numbers<double>(2) == std::vector<double>{0.5});
  CHECK(entries[1].message(2).integer(4) == 1);
  CHECK(entries[2].message(2).bytes(3) == "adam");
  CHECK(info.numbers<double>(5) == std::vector<double>{3});
  const WireMessage end = WireMessage(session_end_event(4, 9)).message(5).message(1);
  CHECK(end.message(9).message(1).message(2).message(4).integer(1) == 1);
}
