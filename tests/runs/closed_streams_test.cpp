#include <fstream>
#include <iterator>

#include "tests/cli/process.h"

using namespace trainer;
using nlohmann::json;

TEST_CASE("a run whose standard streams are closed prints nothing into its files") {
  const std::vector<std::vector<int>> combinations = {{0, 1, 2}, {1}, {2}, {1, 2}, {0, 2}};
  for (const std::vector<int>& closed : combinations) {
    const ScratchFolder folder;
    ProcessOptions options;
    options.before_start = [&] {
      for (const int stream : closed) close(stream);
    };
    const ProcessResult result = run_trainer(
        {"run", "tests/runs/digits_mlp.yaml", "train.steps=3", "train.log_every=1", "output=" + (folder / "run")},
        options);
    INFO(closed.size() << " closed streams, the first " << closed.front());
    CHECK(result.exit_code == 0);
    std::ifstream file(folder / "run/events.jsonl", std::ios::binary);
    const std::vector<json> events = events_of({std::istreambuf_iterator<char>(file), {}});
    CHECK(events_named(events, "step").size() == 3);
    CHECK(events.back()["event"] == "end");
  }
}
