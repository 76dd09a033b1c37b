#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/cli/process.h"

namespace trainer {

using Catch::Contains;

namespace {

std::string text_of_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// The rank that the page of a report is of.
std::int64_t rank_in_page(const std::string& path) {
  const std::string page = text_of_file(path), mark = R"("rank":)";
  const std::size_t at = page.find(mark);
  REQUIRE(at != std::string::npos);
  return std::stoll(page.substr(at + mark.size()));
}

}  // namespace

TEST_CASE("Pages and traces take the place of nothing that is read, from wherever they are asked for") {
  const ScratchFolder folder;
  const std::string run = folder / "run";
  REQUIRE(run_trainer({"run", "configs/quickstart.yaml", "train.steps=2", "output=" + run, "-q"}).exit_code == 0);
  const std::string config = text_of_file(run + "/config.yaml");
  for (const std::string input : {".", "events.jsonl"}) {
    CAPTURE(input);
    const ProcessResult page = run_trainer({"report", input, "-o", "config.yaml", "--overwrite"}, {.folder = run});
    CHECK(page.exit_code == 6);
    CHECK_THAT(page.err, Contains("is read by this command"));
    const ProcessResult trace =
        run_trainer({"export-trace", input, "--perfetto", "config.yaml", "--overwrite"}, {.folder = run});
    CHECK(trace.exit_code == 6);
    CHECK_THAT(trace.err, Contains("is read by this command"));
  }
  CHECK(text_of_file(run + "/config.yaml") == config);
  // Nor of a neighbour.
  std::ofstream(folder / "page.html.tmp") << "mine";
  REQUIRE(run_trainer({"report", run, "-o", folder / "page.html"}).exit_code == 0);
  CHECK(text_of_file(folder / "page.html.tmp") == "mine");
}

TEST_CASE("A rank's own folder says which rank it is, from inside and outside") {
  const ScratchFolder folder;
  const std::string run = folder / "run", rank = run + "/ranks/1";
  REQUIRE(run_trainer({"run", "configs/quickstart.yaml", "--ranks", "2", "train.steps=2", "output=" + run, "-q"})
              .exit_code == 0);
  const std::string page = folder / "page.html";
  REQUIRE(run_trainer({"report", ".", "-o", page}, {.folder = rank}).exit_code == 0);
  CHECK(rank_in_page(page) == 1);
  REQUIRE(run_trainer({"report", rank, "-o", page, "--overwrite"}).exit_code == 0);
  CHECK(rank_in_page(page) == 1);
  REQUIRE(run_trainer({"report", run, "--rank", "1", "-o", page, "--overwrite"}).exit_code == 0);
  CHECK(rank_in_page(page) == 1);
  const ProcessResult twice = run_trainer({"report", rank, "--rank", "0", "-o", page, "--overwrite"});
  CHECK(twice.exit_code == 2);
  CHECK_THAT(twice.err, Contains("leave --rank out"));
  const ProcessResult many = run_trainer({"report", "configs/quickstart.yaml", "configs/quickstart.yaml", "--rank",
                                          "0,1,2,3,4,5,6,7,8", "-o", page, "--overwrite"});
  CHECK(many.exit_code == 2);
  CHECK_THAT(many.err, Contains("18 inputs are more than one page shows"));
}

}  // namespace trainer
