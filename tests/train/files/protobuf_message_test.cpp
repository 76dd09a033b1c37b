#include "engine/files/protobuf_message.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

using namespace trainer;

// The examples of https://protobuf.dev/programming-guides/encoding, and the ends of each kind.
TEST_CASE("fields of a message are encoded as Protocol Buffers has them") {
  const auto integer = [](int field, std::int64_t value) {
    ProtobufMessage message;
    message.add_integer(field, value);
    return message.bytes();
  };
  CHECK(integer(1, 150) == "\x08\x96\x01");
  CHECK(integer(1, 0) == std::string("\x08\x00", 2));
  CHECK(integer(1, 127) == "\x08\x7f");
  CHECK(integer(1, 128) == "\x08\x80\x01");
  CHECK(integer(20, 7) == "\xa0\x01\x07");
  CHECK(integer(1, -2) == "\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01");

  ProtobufMessage text;
  text.add_bytes(2, "testing");
  CHECK(text.bytes() == "\x12\x07testing");
  ProtobufMessage nested;
  nested.add_bytes(3, integer(1, 150));
  CHECK(nested.bytes() == "\x1a\x03\x08\x96\x01");
  ProtobufMessage real;
  real.add_float(2, 1.0F);
  CHECK(real.bytes() == std::string("\x15\x00\x00\x80\x3f", 5));
  ProtobufMessage wide;
  wide.add_double(1, -2.0);
  CHECK(wide.bytes() == std::string("\x09\x00\x00\x00\x00\x00\x00\x00\xc0", 9));
  wide.clear();
  wide.add_doubles(6, std::vector<double>{1.0, 0.0});
  CHECK(wide.bytes() == std::string("\x32\x10\x00\x00\x00\x00\x00\x00\xf0\x3f", 10) + std::string(8, '\0'));
  ProtobufMessage begun;
  begun.begin_bytes(9, std::int64_t{3} << 32);
  CHECK(begun.bytes() == "\x4a\x80\x80\x80\x80\x30");
}
