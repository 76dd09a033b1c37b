#include <catch2/catch.hpp>

#include "engine/report/text/style.h"
#include "engine/report/text/text_table.h"

using namespace trainer;

TEST_CASE("width counts code points and leaves colour out") {
  CHECK(display_width("") == 0);
  CHECK(display_width("32×28") == 5);
  CHECK(display_width(paint({true, 100}, Ink::red, "abc")) == 3);
  CHECK(pad_left("×", 3) == "  ×");
  CHECK(pad_right("abcd", 3) == "abcd");
}

TEST_CASE("text is cut between code points and ends with an ellipsis") {
  CHECK(cut_to_width("abc", 3) == "abc");
  CHECK(cut_to_width("abcd", 3) == "ab…");
  CHECK(cut_to_width("××××", 3) == "××…");
  CHECK(cut_to_width("abc", 0).empty());
}

TEST_CASE("colour is used only where the style has it") {
  CHECK(paint({false, 100}, Ink::red, "x") == "x");
  CHECK(paint({true, 100}, Ink::red, "x") == "\x1b[31mx\x1b[0m");
}

TEST_CASE("wrapping breaks between words and keeps within the width") {
  CHECK(wrap("one two three", 7) == "one two\nthree");
  CHECK(wrap("one two three", 8, "  ") == "one two\n  three");
  CHECK(wrap("it has 12 MiB, and", 9) == "it has\n12 MiB,\nand");
  CHECK(wrap("it has 12 MiBs", 9) == "it has 12\nMiBs");
  CHECK(wrap("incomprehensibilities", 5) == "incomprehensibilities");
}

TEST_CASE("counts have separators and durations a fitting unit") {
  CHECK(format_count(0) == "0");
  CHECK(format_count(999) == "999");
  CHECK(format_count(1000) == "1,000");
  CHECK(format_count(-1234567) == "-1,234,567");
  CHECK(format_duration(0.418) == "0.42 s");
  CHECK(format_duration(59.999) == "1 min 00 s");
  CHECK(format_duration(3725) == "1 h 02 min");
  CHECK(format_duration(1e300) == "?");
  CHECK(format_number_of(1, "layer") == "1 layer");
  CHECK(format_number_of(2000, "layer") == "2,000 layers");
}

TEST_CASE("a table aligns its columns and cuts the first where a line is too wide") {
  TextTable table({{"name", Align::left}, {"bytes"}});
  table.add_row({"a", "1"});
  table.add_rule();
  table.add_row({"sum", "100"});
  CHECK(table.render({false, 100}, 0) ==
        "name  bytes\n"
        "a         1\n"
        "───────────\n"
        "sum     100\n");

  TextTable wide({{"name", Align::left}, {"bytes"}});
  wide.add_row({std::string(90, 'x'), "12 B"});
  const std::string text = wide.render({false, 60}, 2);
  CHECK(text.find("  " + std::string(50, 'x') + "…   12 B\n") != std::string::npos);
}

TEST_CASE("of what a terminal obeys only the sequences of paint are kept") {
  const std::string painted = paint({true, 100}, Ink::red, "a\x1b[2Jb") + paint({true, 100}, Ink::bold, "c");
  CHECK(escaped_but_paint(painted) == "\x1b[31ma\\x1b[2Jb\x1b[0m\x1b[1mc\x1b[0m");
  CHECK(escaped_but_paint("\x1b[5m\x1b\x1b[31\x9b\n\t") == "\\x1b[5m\\x1b\\x1b[31\\x9b\n ");
  CHECK(escaped_but_paint("é").size() == 2);
  CHECK(escaped_but_paint("").empty());
}

TEST_CASE("lines that are too wide go on below their last column") {
  CHECK(wrap_lines("short\n\n  key    what the key means to a run\nend", 24) ==
        "short\n\n  key    what the key\n         means to a run\nend");
  CHECK(wrap_lines("  one two three four\n", 12) == "  one two\n  three four\n");
  CHECK(wrap_lines("", 10).empty());
}
