// What a page packs, unpacked by readers of this test's own and by zlib.

#include "engine/report/page/page_columns.h"

#include <zlib.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/files/gzip.h"
#include "engine/report/page/base64.h"
#include "engine/report/page/sha256.h"

namespace trainer {
namespace {

std::uint64_t read_varint(const std::string& bytes, std::size_t& at) {
  std::uint64_t value = 0;
  int shift = 0;
  while (true) {
    const auto byte = static_cast<std::uint8_t>(bytes.at(at++));
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return value;
    shift += 7;
  }
}

std::vector<std::int64_t> read_integers(const std::string& bytes, std::size_t& at, std::size_t count) {
  std::vector<std::int64_t> values;
  std::int64_t value = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t code = read_varint(bytes, at);
    value += static_cast<std::int64_t>(code >> 1) ^ -static_cast<std::int64_t>(code & 1);
    values.push_back(value);
  }
  return values;
}

std::string inflated(const std::string& packed) {
  z_stream stream{};
  REQUIRE(inflateInit2(&stream, 15 + 16) == Z_OK);
  std::string bytes(std::size_t{1} << 22, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_out = static_cast<uInt>(bytes.size());
  REQUIRE(inflate(&stream, Z_FINISH) == Z_STREAM_END);
  bytes.resize(stream.total_out);
  inflateEnd(&stream);
  return bytes;
}

std::string hex_of(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) {
    constexpr std::string_view digits = "0123456789abcdef";
    text += digits[static_cast<std::uint8_t>(byte) >> 4];
    text += digits[static_cast<std::uint8_t>(byte) & 15];
  }
  return text;
}

}  // namespace

TEST_CASE("Columns are read again as they were added, one behind the other") {
  const std::vector<std::int64_t> integers = {
      0, -1, 1, 63, 64, -64, -65, 1'000'000'007, -3, (std::int64_t{1} << 53) - 1, 0};
  const std::vector<double> numbers = {0.0, -0.5, 1e300, std::numeric_limits<double>::quiet_NaN()};
  const std::vector<std::string> texts = {"", "0.output", "größe", std::string(300, 'x'), "a\nb"};
  PageColumns columns;
  const Json first = columns.integers(integers), second = columns.numbers(numbers), third = columns.texts(texts);
  const Json fourth = columns.integers({});
  CHECK(first.at("count") == integers.size());
  std::size_t at = first.at("integers").get<std::size_t>();
  CHECK(read_integers(columns.bytes(), at, integers.size()) == integers);
  CHECK(at == second.at("numbers").get<std::size_t>());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    double value = 0;
    std::memcpy(&value, columns.bytes().data() + at + 8 * i, sizeof value);
    CHECK((value == numbers[i] || (std::isnan(value) && std::isnan(numbers[i]))));
  }
  at = third.at("texts").get<std::size_t>();
  const std::vector<std::int64_t> lengths = read_integers(columns.bytes(), at, texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    CHECK(columns.bytes().substr(at, static_cast<std::size_t>(lengths[i])) == texts[i]);
    at += static_cast<std::size_t>(lengths[i]);
  }
  CHECK(at == fourth.at("integers").get<std::size_t>());
  CHECK(at == columns.bytes().size());
}

TEST_CASE("Bytes of a page are gzip that zlib reads, and base64 of RFC 4648") {
  std::string bytes;
  for (int i = 0; i < 1'000'000; ++i) bytes += static_cast<char>(i * 79 % 251);
  CHECK(inflated(gzip_of(bytes)) == bytes);
  CHECK(gzip_of(bytes) == gzip_of(bytes));
  CHECK(inflated(gzip_of("")).empty());
  // RFC 4648, 10
  CHECK(base64_of("") == "");
  CHECK(base64_of("f") == "Zg==");
  CHECK(base64_of("fo") == "Zm8=");
  CHECK(base64_of("foo") == "Zm9v");
  CHECK(base64_of("foobar") == "Zm9vYmFy");
  CHECK(base64_of("\xff\xfe\xfd") == "//79");
}

TEST_CASE("SHA-256 is that of FIPS 180-4's examples") {
  CHECK(hex_of(sha256_of("")) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(hex_of(sha256_of("abc")) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(hex_of(sha256_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")) ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(hex_of(sha256_of(std::string(1'000'000, 'a'))) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

}  // namespace trainer
