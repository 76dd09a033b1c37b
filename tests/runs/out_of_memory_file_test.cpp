// What stays of a run that ends out of memory: its report, in a file of its folder.

#include <fstream>
#include <iterator>
#include <sstream>

#include "engine/report/text/style.h"
#include "tests/cli/process.h"

using namespace trainer;
using Catch::Contains;

namespace {

std::string report_in(const std::string& folder) {
  std::ifstream file(folder + "/out_of_memory.txt", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

ProcessResult run_quickstart(const std::string& output, const std::vector<std::string>& more,
                             const ProcessOptions& options = {}) {
  std::vector<std::string> words = {"run", "configs/quickstart.yaml", "train.epochs=1", "output=" + output};
  words.insert(words.end(), more.begin(), more.end());
  return run_trainer(words, options);
}

}  // namespace

TEST_CASE("a run that ends out of memory leaves what to do on the last screen, and its whole report in a file") {
  const ScratchFolder folder;
  const std::string output = folder / "run";
  const ProcessResult result = run_quickstart(
      output, {"memory.limit=4MiB"}, {.environment = {{"NO_COLOR", "1"}, {"TERM", "dumb"}}, .terminal_columns = 80});
  CHECK(result.exit_code == 3);
  const std::size_t last_screen = result.out.rfind("Out of memory in step 1, forward, layer 4 (batchnorm2d)");
  REQUIRE(last_screen != std::string::npos);
  INFO(result.out.substr(last_screen));
  std::istringstream lines(result.out.substr(last_screen));
  int num_lines = 0;
  for (std::string line; std::getline(lines, line); ++num_lines) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.find(output) == std::string::npos) CHECK(display_width(line) <= 80);
  }
  CHECK(num_lines <= 22);
  for (const char* part : {"  1. train.batch_size=", "  3. ", "Paste the first:", "The whole report, with 2 more: "})
    CHECK_THAT(result.out.substr(last_screen), Contains(part));
  CHECK_THAT(result.out.substr(last_screen), !Contains("memory.limit=6MiB"));
  CHECK(result.out.find("Words") == std::string::npos);
  const std::string report = report_in(output);
  CHECK(report.starts_with("Out of memory. Tried to allocate 2.00 MiB."));
  for (const char* part :
       {"largest buffers", "The step until then", "Words", "  5. memory.limit=6MiB", "Paste the first"})
    CHECK_THAT(report, Contains(part));
}

TEST_CASE("the report is there until the next run in its folder begins, and takes nobody's place") {
  const ScratchFolder folder;
  const std::string output = folder / "run";
  REQUIRE(run_quickstart(output, {"--quiet"}).exit_code == 0);
  CHECK(report_in(output).empty());
  REQUIRE(run_quickstart(output, {"--quiet", "--overwrite", "memory.limit=4MiB"}).exit_code == 3);
  CHECK_THAT(report_in(output), Contains("--overwrite"));
  // One that is refused leaves it.
  REQUIRE(run_quickstart(output, {"--quiet", "--resume", "seed=7"}).exit_code == 6);
  CHECK_FALSE(report_in(output).empty());
  REQUIRE(run_quickstart(output, {"--quiet", "--resume"}).exit_code == 0);
  CHECK(report_in(output).empty());
  const std::string other = folder / "other";
  std::filesystem::create_directory(other);
  std::ofstream(other + "/out_of_memory.txt") << "mine";
  const ProcessResult refused = run_quickstart(other, {"memory.limit=4MiB"});
  CHECK(refused.exit_code == 6);
  CHECK_THAT(refused.err, Contains("out_of_memory.txt was not written by trainer"));
  CHECK(report_in(other) == "mine");
}

TEST_CASE("--full prints the whole report, and --json leaves it to the file") {
  const ScratchFolder folder;
  const ProcessResult full = run_quickstart(folder / "full", {"memory.limit=4MiB", "--full"});
  CHECK(full.exit_code == 3);
  CHECK_THAT(full.err, Contains("Words") && Contains("  5. memory.limit=6MiB") && !Contains("The whole report"));
  const ProcessResult brief = run_quickstart(folder / "brief", {"memory.limit=4MiB", "--json"});
  CHECK(brief.exit_code == 3);
  CHECK_THAT(brief.err, !Contains("What to change"));
  CHECK_THAT(report_in(folder / "brief"), Contains("What to change"));
}
