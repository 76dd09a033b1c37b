#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/cli/process.h"

using namespace trainer;
using Catch::Contains;

namespace {

/// Two runs of a few steps, in `a` and `b` of the folder; b has other batches.
void train_two_runs(const ScratchFolder& folder) {
  for (const auto& [name, batch] : {std::pair{"a", "64"}, {"b", "256"}}) {
    const ProcessResult result =
        run_trainer({"run", "configs/quickstart.yaml", "train.epochs=2", std::string("train.batch_size=") + batch,
                     "output=" + folder / name, "-q"});
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
  }
}

void write_lines(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

std::string text_of_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("runs are compared with each other and with their plan, and checks say by the exit code which is worse") {
  const ScratchFolder folder;
  train_two_runs(folder);
  const std::string a = folder / "a", b = folder / "b";
  const ProcessResult shown = run_trainer({"compare", a, b});
  INFO(shown.out << shown.err);
  CHECK(shown.exit_code == 0);
  CHECK(shown.err.empty());
  CHECK_THAT(shown.out, Contains("train.batch_size  64  256") && Contains("peak reserved") && Contains("samples/s") &&
                            Contains("accuracy") && Contains("What they are called or told by differs, too: output."));

  const ProcessResult larger = run_trainer({"compare", a, b, "--check", "memory=1%", "--check", "config=0"});
  CHECK(larger.exit_code == 1);
  CHECK_THAT(larger.out, Contains("✗"));
  CHECK_THAT(larger.err, Contains("Check failed: memory.reserved of B") &&
                             Contains("the configuration of B differs from A's in train.batch_size"));
  // Less memory than the reference is no failure, unless nothing may differ.
  CHECK(run_trainer({"compare", b, a, "--check", "memory=0", "-q"}).exit_code == 0);
  CHECK(run_trainer({"compare", b, a, "--check", "memory=exact", "-q"}).exit_code == 1);

  const ProcessResult planned = run_trainer({"plan", "configs/quickstart.yaml", "train.epochs=2", "--json"});
  write_lines(folder / "plan.json", planned.out);
  const ProcessResult predicted = run_trainer({"compare", folder / "plan.json", a, "--check", "memory=exact"});
  INFO(predicted.out << predicted.err);
  CHECK(predicted.exit_code == 0);
  CHECK_THAT(predicted.out, Contains("plan: fits") && Contains("· activation"));
  CHECK(run_trainer({"compare", folder / "plan.json", b, "--check", "memory=exact"}).exit_code == 1);
  const ProcessResult lacking = run_trainer({"compare", folder / "plan.json", a, "--check", "loss=1%"});
  CHECK(lacking.exit_code == 6);
  CHECK_THAT(lacking.err, Contains("is a plan, which does not tell loss"));
}

TEST_CASE("runs that have not ended, and wrong ones, are told of") {
  const ScratchFolder folder;
  train_two_runs(folder);
  const std::string a = folder / "a", b = folder / "b/events.jsonl";
  const std::string events = text_of_file(b);
  write_lines(b, events.substr(0, events.size() * 2 / 3));  // as while it goes on, in the middle of a line
  const ProcessResult unfinished = run_trainer({"compare", a, b});
  INFO(unfinished.out << unfinished.err);
  CHECK(unfinished.exit_code == 0);
  CHECK_THAT(unfinished.out, Contains("unfinished"));

  CHECK(run_trainer({"compare", a}).exit_code == 2);
  CHECK(run_trainer({"compare"}).exit_code == 2);
  CHECK(run_trainer({"compare", a, b, "--check", "los=1%"}).exit_code == 2);
  CHECK(run_trainer({"compare", a, b, "--check", "loss=some"}).exit_code == 2);
  CHECK(run_trainer({"compare", a, folder / "none"}).exit_code == 6);
  CHECK(run_trainer({"compare", a, folder.path()}).exit_code == 6);
  write_lines(folder / "wrong.json", "{\"event\":\"plan\",\"name\":3}\n");
  const ProcessResult wrong = run_trainer({"compare", a, folder / "wrong.json"});
  CHECK(wrong.exit_code == 6);
  CHECK_THAT(wrong.err, Contains("wrong.json") && Contains("name"));
  const ProcessResult plans = run_trainer({"plan", "configs/quickstart.yaml", "--gpu", "t4,h100", "--json"});
  write_lines(folder / "plans.json", plans.out);
  const ProcessResult several = run_trainer({"compare", a, folder / "plans.json"});
  CHECK(several.exit_code == 6);
  CHECK_THAT(several.err, Contains("plans of several targets"));
}

TEST_CASE("runs are drawn in the width of the terminal, and into a file that is not replaced unasked") {
  const ScratchFolder folder;
  train_two_runs(folder);
  const std::string a = folder / "a", b = folder / "b", svg = folder / "runs.svg";
  const ProcessResult shown = run_trainer({"plot", a, b, "--svg", svg, "--of", "loss,lr,memory,speed,accuracy"});
  INFO(shown.out << shown.err);
  CHECK(shown.exit_code == 0);
  CHECK_THAT(shown.out, Contains("A batch_size=64  B batch_size=256") && Contains("learning rate") &&
                            Contains("planned peak reserved") && Contains("samples/s") && Contains("accuracy"));
  CHECK_THAT(text_of_file(svg), Catch::StartsWith("<svg ") && Catch::EndsWith("</svg>\n") &&
                                    Contains("prefers-color-scheme: dark") && Contains(">batch_size=64<"));
  const ProcessResult again = run_trainer({"plot", a, "--svg", svg});
  CHECK(again.exit_code == 6);
  CHECK_THAT(again.err, Contains("--overwrite"));
  CHECK(run_trainer({"plot", a, "--svg", svg, "--overwrite", "-q"}).exit_code == 0);
  CHECK(run_trainer({"plot", a, "--svg", folder / "a/events.jsonl", "--overwrite"}).exit_code == 6);
  for (const char* axis : {"step", "time", "epoch"})
    CHECK_THAT(run_trainer({"plot", a, "--x", axis, "--log"}).out, Contains("(logarithmic)"));

  // On a terminal, in colour.
  const ProcessResult coloured = run_trainer({"plot", a}, {.terminal_columns = 70});
  CHECK(coloured.exit_code == 0);
  CHECK_THAT(coloured.out, Contains("\x1b[36m"));

  CHECK(run_trainer({"plot"}).exit_code == 2);
  CHECK(run_trainer({"plot", a, "--of", "los"}).exit_code == 2);
  CHECK(run_trainer({"plot", a, "--of", "loss,loss"}).exit_code == 2);
  CHECK(run_trainer({"plot", a, "--of", "loss,"}).exit_code == 2);
  CHECK(run_trainer({"plot", a, "--x", "day"}).exit_code == 2);
  CHECK(run_trainer({"plot", a, "--of", "dice"}).exit_code == 6);
  CHECK(run_trainer({"plot", folder / "none"}).exit_code == 6);
}

TEST_CASE("what runs and folders are called never moves the cursor, in tables, plots and messages") {
  const ScratchFolder folder;
  train_two_runs(folder);
  const std::string hostile =
      "\x1b[31m<b>\"'&\x07\xc2\x9b"
      "5m\xff";
  const std::string renamed = folder / hostile;
  std::filesystem::rename(folder / "b", renamed);
  // As JSON can hold them: in the name, the device, a key and a stage.
  std::string events = text_of_file(renamed + "/events.jsonl");
  const auto replace = [&](const std::string& part, const std::string& by) {
    for (std::size_t at = events.find(part); at != std::string::npos; at = events.find(part, at + by.size()))
      events.replace(at, part.size(), by);
  };
  const std::string escaped = R"(\u001b[2J<script>\u0007\u009b)" + std::string(10'000, 'x');
  replace(R"("name":"quickstart")", R"("name":")" + escaped + "\"");
  replace(R"("name":"AMD)", R"("name":"\u001b[31m)" + escaped);
  replace(R"("stage":"train")", R"("stage":"\u001b[5m")");
  replace(R"("seed":1,)", R"("seed":1,"k\u001b[2J":"v\u001b[2J",)");
  write_lines(renamed + "/events.jsonl", events);
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"compare", folder / "a", renamed, "--check", "memory=0"},
                                             {"compare", folder / "a", renamed, "--json"},
                                             {"compare", folder / "a", renamed, "--check", "dice=0"},
                                             {"compare", folder / "a", renamed, "--check", hostile + "=0"},
                                             {"plot", renamed},
                                             {"plot", folder / "a", renamed, "--svg", folder / "h.svg", "--overwrite"},
                                             {"plot", renamed, "--of", hostile},
                                             {"plot", folder / hostile + "none"}}) {
    const ProcessResult result = run_trainer(words);
    INFO(words[0] << ' ' << words.back());
    for (const std::string& text : {result.out, result.err}) {
      CHECK(text.find_first_of("\x1b\x07") == std::string::npos);
      CHECK(text.find("\xc2\x9b") == std::string::npos);
    }
    CHECK(result.err.find("unexpected") == std::string::npos);
    CHECK(result.exit_code >= 0);
  }
  CHECK_THAT(text_of_file(folder / "h.svg"), !Contains("<script>") && !Contains("\x1b"));
}
