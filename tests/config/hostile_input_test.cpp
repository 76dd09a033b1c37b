#include <sys/resource.h>
#include <ctime>

#include <catch2/catch.hpp>

#include "engine/config/diagnostic.h"
#include "engine/config/load_experiment.h"

namespace trainer {
namespace {

/// Sanitizers cost time and memory of their own; then only the answer is checked.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool measures = false;
#else
constexpr bool measures = true;
#endif

long peak_resident_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

/// Parses, and holds the promise: an error, within a second, and less than 96 MiB beyond what was held before.
std::string refused(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const long before_kib = peak_resident_kib();
  // Time of this process, so that a busy machine does not count.
  const std::clock_t start = std::clock();
  std::string message;
  try {
    parse_experiment(text, "hostile.yaml", overrides);
  } catch (const ConfigError& error) {
    message = error.what();
  }
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  REQUIRE_FALSE(message.empty());
  CHECK(message.size() < 100'000);
  if (measures) {
    CHECK(seconds < 1.0);
    CHECK(peak_resident_kib() - before_kib < 96 * 1024);
  }
  return message;
}

std::string repeated(std::string_view part, std::size_t count) {
  std::string text;
  text.reserve(part.size() * count);
  for (std::size_t i = 0; i < count; ++i) text += part;
  return text;
}

bool has(const std::string& message, std::string_view part) { return message.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("nesting 10,000 deep is refused in every notation") {
  CHECK(has(refused("model: " + repeated("[", 10'000)), "nested more than 64 deep"));
  CHECK(has(refused("model: " + repeated("[", 10'000) + repeated("]", 10'000)), "nested more than 64 deep"));
  CHECK(has(refused(repeated("{a: ", 10'000) + repeated("}", 10'000)), "nested more than 64 deep"));
  CHECK(has(refused(repeated("- ", 10'000) + "a"), "nested more than 64 deep"));
  CHECK(has(refused(repeated("? ", 10'000) + "a"), "'? ' is not supported"));
  CHECK_FALSE(refused(repeated("a: ", 10'000)).empty());
  std::string stairs;
  for (std::size_t i = 0; i < 1'400; ++i) stairs += std::string(i, ' ') + "a:\n";
  CHECK(has(refused(stairs.substr(0, 1 << 20)), "nested more than 64 deep"));
  CHECK_FALSE(refused("", {"model=" + repeated("[", 10'000)}).empty());
  CHECK_FALSE(refused("seed: 1", {repeated("a.", 10'000) + "b=1"}).empty());
}

TEST_CASE("brackets without end are refused quickly") {
  CHECK_FALSE(refused(repeated("]", 1'000'000)).empty());
  CHECK_FALSE(refused(repeated("[],", 300'000)).empty());
  CHECK_FALSE(refused("a: [" + repeated("[],", 300'000) + "]").empty());
  CHECK_FALSE(refused("a: [" + repeated("1,", 500'000) + "]").empty());
  CHECK_FALSE(refused("a: [" + repeated("a: ,", 200'000) + "]").empty());
}

TEST_CASE("an alias bomb is refused before it goes off") {
  std::string bomb = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string last = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + last;
    for (int j = 0; j < 8; ++j) bomb += ", " + last;
    bomb += "]\n";
  }
  CHECK(has(refused(bomb), "counting each use of an alias"));
}

TEST_CASE("aliases of a long text are refused before they fill memory") {
  const std::string text = "a: &a " + std::string(500'000, 'x') + "\nb: [" + repeated("*a, ", 100'000) + "]\n";
  CHECK(has(refused(text), "more than 4 MiB of text"));
}

TEST_CASE("anchors within anchors are refused before they fill memory") {
  std::string text = "a: ";
  for (int i = 0; i < 60; ++i) text += "&a" + std::to_string(i) + " [";
  text += repeated("1,", 90'000) + repeated("]", 60);
  CHECK(has(refused(text), "more than 100000 values"));
}

TEST_CASE("100 MB are refused without being read") {
  CHECK(has(refused(std::string(100'000'000, 'a')), "larger than 1 MiB"));
  const std::string path = "/dev/zero";
  const std::clock_t start = std::clock();
  CHECK_THROWS_AS(load_experiment(path), ConfigError);
  CHECK(std::clock() - start < CLOCKS_PER_SEC);
}

TEST_CASE("binary data is refused with its first bad byte") {
  CHECK(has(refused(std::string("model: a\n\0b", 11)), "hostile.yaml:2:1: error: byte 0x00 at offset 9 is not text"));
  CHECK(has(refused("model: \xFF\xFE"), "byte 0xff at offset 7"));
  CHECK(has(refused("a: \xC0\xAF"), "byte 0xc0 at offset 3"));
  CHECK(has(refused("a: \xED\xA0\x80"), "byte 0xed at offset 3"));
  std::string noise;
  for (std::uint32_t i = 0, word = 1; i < 100'000; ++i) {
    word = word * 1664525 + 1013904223;
    noise += static_cast<char>(word >> 24);
  }
  CHECK_FALSE(refused(noise).empty());
  CHECK_FALSE(refused("", {"name=\xFF"}).empty());
}

TEST_CASE("random text of YAML's own characters never crashes or hangs the reader") {
  constexpr std::string_view letters = "[]{}:,-?&*!|>'\"%@`#~ \n\n  ab01.$<=\t";
  std::uint32_t word = 12345;
  for (int round = 0; round < 3'000; ++round) {
    std::string text;
    for (int i = 0; i < 60; ++i) {
      word = word * 1664525 + 1013904223;
      text += letters[(word >> 16) % letters.size()];
    }
    CHECK_THROWS_AS(parse_experiment(text, "random.yaml"), ConfigError);
  }
}

TEST_CASE("thousands of mistakes are counted, not told") {
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += "batch_sizes" + std::to_string(i) + ": 1\n";
  CHECK_FALSE(refused(text).empty());
  std::string list = "model: {layers: [" + repeated("liner, ", 90'000) + "]}";
  const std::string message = refused(list);
  CHECK(has(message, "and 180 more errors, where reading stopped"));
  CHECK_FALSE(refused("name: \"" + repeated("${nothing}", 90'000) + "\"").empty());
}

TEST_CASE("numbers beyond any machine are refused by name") {
  const std::string start = "model: {layers: [flatten]}\n";
  CHECK(has(refused(start + "optimizer: {lr: .NaN}"), "'.NaN' is not finite"));
  CHECK(has(refused(start + "optimizer: {lr: 1e309}"), "'1e309' is not finite"));
  CHECK(has(refused(start + "train: {batch_size: 1e308}"), "'1e308' is not an integer"));
  CHECK(has(refused(start + "train: {batch_size: " + std::string(100'000, '9') + "}"), "too long for a number"));
  CHECK(has(refused(start + "memory: {limit: -1}"), "'-1' is negative"));
  CHECK(has(refused(start + "memory: {limit: 99999999999TiB}"), "is not a size"));
  CHECK(has(refused("model: {layers: [linear: {out: -5}]}"), "'-5' is below 1"));
  CHECK(has(refused(start + "data: {type: synthetic, shape: [2000000000, 2000000000, 3], classes: 2, samples: 1}"),
            "more than 10^12 elements"));
}

TEST_CASE("repeats of repeats are counted before they are written out") {
  CHECK(has(refused("model: {layers: [repeat: {times: 2000000000, layers: [repeat: {times: 2000000000, layers: "
                    "[relu]}]}]}"),
            "more than 100000 layers once every repeat is written out"));
}

TEST_CASE("blocks that use blocks are counted before they fill memory, also where they leave nothing") {
  std::string doubling = "model:\n  layers: [b0]\n  blocks:\n    b18: {layers: [LAST]}\n";
  for (int i = 0; i < 18; ++i) {
    const std::string next = "b" + std::to_string(i + 1);
    doubling += "    b" + std::to_string(i) + ": {layers: [" + next + ", " + next + "]}\n";
  }
  const auto ending_in = [&](const std::string& last) {
    std::string text = doubling;
    return text.replace(text.find("LAST"), 4, last);
  };
  CHECK(has(refused(ending_in("relu")), "more than 100000 values once blocks and repeats are written out"));
  CHECK(has(refused(ending_in("'relu': {when: false}")), "no layer of block 'b18' is there"));
  std::string chain = "model:\n  layers: [c0]\n  blocks:\n    c900: {layers: [relu]}\n";
  for (int i = 0; i < 900; ++i) chain += "    c" + std::to_string(i) + ": {layers: [c" + std::to_string(i + 1) + "]}\n";
  CHECK(has(refused(chain), "nested more than 64 deep once blocks are written out"));
  std::string wide = "model:\n  layers: [repeat: {times: 2000000000, as: i, layers: [BODY]}]\n";
  CHECK(has(refused(wide.replace(wide.find("BODY"), 4, "")), "more than 100000 values"));
  CHECK(has(refused("model:\n  layers: [repeat: {times: 2000000000, as: i, layers: [linear: {out: 3}]}]\n"),
            "more than 100000 values"));
  CHECK(has(refused("model:\n  layers: [repeat: {times: 90000, as: i, layers: [relu: {when: \"${1 / 0}\"}]}]\n"),
            "this divides by 0"));
  const std::string long_text(4'000, 'x');
  CHECK(has(refused("model:\n  blocks: {b: {parameters: {p: " + long_text +
                    "}, layers: [relu: {name: \"${p}\"}]}}\n  layers: [repeat: {times: 9000, as: i, layers: [b]}]\n"),
            "4 MiB of text once blocks and repeats are written out"));
}

TEST_CASE("expressions are answered at any length and depth") {
  const auto of = [](const std::string& expression) {
    return refused("model: {layers: [linear: {out: \"${" + expression + "}\"}]}\n");
  };
  CHECK(has(of(repeated("(", 900)), "nest more than 32 deep"));
  CHECK(has(of(repeated("1 + ", 100'000)), "an expression of more than 1000 bytes"));
  CHECK_FALSE(of(repeated("not ", 240)).empty());
  CHECK_FALSE(of(repeated("if(", 300)).empty());
  std::string many = "model: {layers: [";
  for (int i = 0; i < 20'000; ++i) many += "linear: {out: \"${1" + repeated(" + 1", 10) + "}\"}, ";
  CHECK_FALSE(refused(many + "nothing]}").empty());
}

TEST_CASE("one line of a mebibyte is shown in part") {
  const std::string text = "model: {layers: [flatten]}\nname: [" + std::string(900'000, 'x') + "]";
  CHECK(refused(text).size() < 1'000);
}

TEST_CASE("text that is not UTF-8 is refused at its place, wherever it comes from") {
  const std::string model = "data: digits\nmodel: {layers: [flatten, linear: {out: 10}]}\n";
  CHECK(has(refused(model, {"name=a\xff"}), "argument 'name=a?': error: "));
  CHECK(has(refused(model, {"output=runs/\xc2"}), "argument 'output=runs/?': error: "));
  // The name is the file's where none is given.
  try {
    parse_experiment(model, "folder/caf\xe9.yaml");
    FAIL("no error");
  } catch (const ConfigError& error) {
    CHECK(has(error.what(), "'name': 'caf?' is not UTF-8"));
  }
  CHECK(parse_experiment(model, "folder/caf\xc3\xa9.yaml").name == "caf\xc3\xa9");
}

}  // namespace trainer
