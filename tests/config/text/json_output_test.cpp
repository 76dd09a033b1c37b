#include "engine/config/text/json_output.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>

using namespace trainer;

TEST_CASE("JSON that is written reads back to the same, and holds nothing that a terminal obeys") {
  using namespace std::string_literals;
  const std::string obeyed = "\x1b[5m\x07\0\x7f\xc2\x80\xc2\x9b\xc2\x9f\n"s;
  const std::string shown = " \xc2\xa0\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80\\\"~";  // U+00A0, ü, €, a smiley
  const nlohmann::ordered_json value = {{obeyed, shown}, {shown, {obeyed, 7, 0.1, nullptr, true}}};
  for (const int indent : {-1, 2}) {
    const std::string text = json_text(value, indent);
    CHECK(nlohmann::ordered_json::parse(text) == value);
    CHECK(text.find("\\u007f\\u0080\\u009b\\u009f") != std::string::npos);
    CHECK(text.find("\xc2\xa0\xc3\xbc") != std::string::npos);
    for (std::size_t i = 0; i + 1 < text.size(); ++i) {
      const auto byte = static_cast<unsigned char>(text[i]), next = static_cast<unsigned char>(text[i + 1]);
      CHECK((byte >= 0x20U || (indent >= 0 && byte == '\n')));
      CHECK(byte != 0x7FU);
      CHECK_FALSE((byte == 0xC2U && next < 0xA0U));
    }
  }
  CHECK(json_text("a\x9b z") == "\"a\xef\xbf\xbd z\"");
  CHECK(json_text("a\xc2") == "\"a\xef\xbf\xbd\"");
}
