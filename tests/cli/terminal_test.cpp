#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "tests/cli/process.h"

using namespace trainer;
using Catch::Contains;

namespace {

std::vector<std::string> short_run(const ScratchFolder& folder, std::vector<std::string> more = {}) {
  std::vector<std::string> words = {"run", "configs/quickstart.yaml", "train.steps=25",
                                    "model.layers=[flatten, {linear: {out: 10}}]", "output=" + (folder / "run")};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("without a terminal a run prints plain lines and a summary") {
  ScratchFolder folder;
  const ProcessResult result = run_trainer(short_run(folder));
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
  CHECK(result.out.find('\x1b') == std::string::npos);
  CHECK(result.out.find('\r') == std::string::npos);
  for (const char* title : {"step", "loss", "lr", "samples/s", "allocated", "(peak)", "reserved", "used"})
    CHECK_THAT(result.out, Contains(title));
  CHECK_THAT(result.out, Contains("evaluation after step 23 (epoch 1)"));
  CHECK_THAT(result.out, Contains("Done after 25 steps") && Contains("accuracy") && Contains("peak memory") &&
                             Contains("held by") && Contains(folder / "run/events.jsonl"));
}

TEST_CASE("a run on tokens tells them, and one that is resumed goes on with the count") {
  ScratchFolder folder;
  std::ofstream ids(folder / "ids.bin", std::ios::binary);
  for (int i = 0; i < 2 * 4001; ++i) ids.put(static_cast<char>(i % 2 == 0 ? i / 2 % 7 : 0));
  ids.close();
  std::ofstream(folder / "tokens.yaml") << "device: {type: cpu, threads: 1}\ndata: {type: tokens, train: "
                                        << folder / "ids.bin"
                                        << ", sequence_length: 8, classes: 7}\n"
                                           "model: {layers: [embedding: {num: 7, dim: 4}, linear: {out: 7}]}\n"
                                           "train: {batch_size: 5, accumulation_steps: 2}\noutput: "
                                        << folder / "run"
                                        << "\n";
  // Nothing was measured of this machine, so its peak is not known.
  const ProcessOptions unmeasured{.environment = {{"XDG_CACHE_HOME", folder / "cache"}}};
  const ProcessResult first = run_trainer({"run", folder / "tokens.yaml", "train.steps=3"}, unmeasured);
  INFO(first.err);
  REQUIRE(first.exit_code == 0);
  // 10 samples of 8 tokens a step.
  CHECK_THAT(first.out,
             Contains("tokens/s") && Contains("tokens seen") && Contains(", 240 tokens\n") && !Contains("MFU"));
  const ProcessResult second =
      run_trainer({"run", folder / "tokens.yaml", "train.steps=5", "--resume", "--json"}, unmeasured);
  INFO(second.err);
  REQUIRE(second.exit_code == 0);
  std::vector<std::int64_t> seen;
  for (const nlohmann::json& event : events_of(second.out)) {
    if (event["event"] == "start") CHECK(event["tokens_per_sample"] == 8);
    if (event["event"] == "start") CHECK(event["peak_flops_per_second"].is_null());
    if (event["event"] != "step") continue;
    seen.push_back(event["tokens_seen"]);
    CHECK(event["tokens"] == 80);
    CHECK(event["tokens_per_second"].get<double>() ==
          Approx(8 * event["samples_per_second"].get<double>()).epsilon(1e-9));
    CHECK_FALSE(event.contains("mfu"));
  }
  CHECK(seen == std::vector<std::int64_t>{320, 400});
  const nlohmann::json end = events_of(second.out).back();
  CHECK(end["tokens"] == 160);
  CHECK(end["tokens_seen"] == 400);

  // On a terminal.
  const ProcessResult shown =
      run_trainer({"run", folder / "tokens.yaml", "train.steps=5", "--overwrite"},
                  {.environment = {{"XDG_CACHE_HOME", folder / "cache"}}, .terminal_columns = 120});
  CHECK_THAT(shown.out, Contains(" tokens/s"));
}

TEST_CASE("--log-every says which steps have a line") {
  ScratchFolder folder;
  const ProcessResult result = run_trainer(short_run(folder, {"--log-every", "10"}));
  for (const char* line : {" 1/25 ", " 10/25 ", " 20/25 ", " 25/25 "}) CHECK(count_of(result.out, line) == 1);
  CHECK(count_of(result.out, "/25 ") == 4);
}

TEST_CASE("--quiet prints nothing where nothing is wrong") {
  ScratchFolder folder;
  const ProcessResult result = run_trainer(short_run(folder, {"--quiet"}));
  CHECK(result.exit_code == 0);
  CHECK(result.out.empty());
  CHECK(result.err.empty());
}

TEST_CASE("--verbose tells what is read on stderr") {
  ScratchFolder folder;
  const ProcessResult result = run_trainer(short_run(folder, {"--verbose", "--quiet"}));
  CHECK(result.out.empty());
  CHECK_THAT(result.err, Contains("1437 training and 360 validation samples"));
}

TEST_CASE("--json prints every event on a line and nothing else, and the file holds the same") {
  ScratchFolder folder;
  const ProcessResult result = run_trainer(short_run(folder, {"--json"}));
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
  const std::vector<nlohmann::json> events = events_of(result.out);
  REQUIRE(events.size() >= 28);
  CHECK(events.front()["event"] == "start");
  CHECK(events.front()["config"]["train"]["steps"] == 25);
  CHECK(events_named(events, "step").size() == 25);
  CHECK(events_named(events, "eval").size() == 2);
  CHECK(events.back()["event"] == "end");
  CHECK(events.back()["status"] == "done");
  std::ifstream file(folder / "run/events.jsonl");
  std::ostringstream text;
  text << file.rdbuf();
  CHECK(text.str() == result.out);
}

TEST_CASE("on a terminal a bar with what remains is redrawn in place") {
  ScratchFolder folder;
  const ProcessResult result = run_trainer(short_run(folder), {.terminal_columns = 110});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Contains("eta ") && Contains("samples/s") && Contains("allocated ") && Contains("(peak ") &&
                             Contains("reserved ") && Contains("used ") && Contains("100 %") && Contains("█"));
  CHECK_THAT(result.out, Contains("\x1b[1A\x1b[2K"));
  CHECK_THAT(result.out, Contains("\x1b[32mDone\x1b[0m after 25 steps"));
}

TEST_CASE("no drawn line is wider than the terminal") {
  for (const int columns : {20, 60, 80, 200}) {
    ScratchFolder folder;
    const ProcessResult result =
        run_trainer(short_run(folder), {.environment = {{"NO_COLOR", "1"}}, .terminal_columns = columns});
    CHECK(result.exit_code == 0);
    std::string text = result.out;
    for (const char* move : {"\x1b[1A", "\x1b[2K", "\r"})
      for (std::size_t at = text.find(move); at != std::string::npos; at = text.find(move))
        text.erase(at, std::string(move).size());
    std::istringstream lines(text);
    std::size_t num_panel_lines = 0;
    for (std::string line; std::getline(lines, line);) {
      if (line.rfind(" step ", 0) != 0 && line.rfind(" allocated ", 0) != 0) continue;
      ++num_panel_lines;
      std::size_t width = 0;
      for (const char c : line) width += (static_cast<unsigned char>(c) & 0xC0U) != 0x80U ? 1 : 0;
      CHECK(width < static_cast<std::size_t>(columns));
    }
    CHECK(num_panel_lines >= 4);
  }
}

TEST_CASE("NO_COLOR and a dumb terminal are respected") {
  ScratchFolder folder;
  const ProcessResult plain =
      run_trainer(short_run(folder), {.environment = {{"NO_COLOR", "1"}}, .terminal_columns = 100});
  CHECK(plain.out.find("\x1b[3") == std::string::npos);
  CHECK(plain.out.find("\x1b[0m") == std::string::npos);
  const ProcessResult dumb =
      run_trainer(short_run(folder, {"--overwrite"}), {.environment = {{"TERM", "dumb"}}, .terminal_columns = 100});
  CHECK(dumb.exit_code == 0);
  CHECK(dumb.out.find('\x1b') == std::string::npos);
}

TEST_CASE("the note of an interrupt is not drawn over") {
  ScratchFolder folder;
  ProcessOptions options;
  options.environment = {{"NO_COLOR", "1"}};
  options.terminal_columns = 100;
  options.on_output = [sent = false](pid_t process, const std::string& out) mutable {
    if (!sent && out.find("samples/s") != std::string::npos) {
      sent = true;
      kill(process, SIGINT);
    }
  };
  const ProcessResult result = run_trainer(short_run(folder, {"train.steps=1000000"}), options);
  CHECK(result.exit_code == 75);
  const std::string note = "once more to stop at once.";
  const std::size_t at = result.out.find(note);
  REQUIRE(at != std::string::npos);
  const std::string after = result.out.substr(at + note.size());
  // The panel that is drawn next stands below the note, and goes up by its own two lines only from then on.
  CHECK(after.find("allocated ") < after.find("\x1b[1A"));
  CHECK_THAT(after, Contains("Interrupted after") && Contains("--resume"));
}
