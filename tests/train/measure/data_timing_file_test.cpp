#include "engine/train/measure/data_timing_file.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "datasets/dataset.h"
#include "engine/config/load_experiment.h"
#include "tests/whole_runs/training_fixture.h"

using namespace trainer;
using Catch::Contains;

namespace {

/// Figures that no short decimal writes exactly.
KeptDataTiming some_data_timing() {
  KeptDataTiming kept;
  kept.measured_at = 1'764'000'000;
  kept.timing.num_distinct = 240;
  kept.timing.storage_bytes = 4096;
  kept.timing.one_thread = {1, 4'321, 10.0 / 3};
  kept.timing.all_threads = {3, 9'876, 10.0 / 3};
  kept.timing.stage_seconds = {1e-5 / 3, 1e-3 / 3, 2e-4 / 3, 0};
  kept.timing.reducible_share = 1.0 / 3;
  return kept;
}

std::string subject_of(const std::vector<std::string>& overrides, int usable_threads = 2) {
  const Experiment experiment = parse_experiment(
      "data: {type: digits, transforms: {train: [flip]}}\nmodel: {layers: [flatten, linear: {out: 10}]}\n", "test.yaml",
      overrides);
  return timing_subject(experiment, describe_data(experiment.data, experiment.seed), usable_threads);
}

}  // namespace

TEST_CASE("A timing of data survives its file to the bit") {
  const OutputFolder folder;
  const std::string path = folder.path("cache/trainer/data.json"), subject = subject_of({});
  CHECK(!read_data_timing(path, subject));
  const KeptDataTiming kept = some_data_timing();
  write_data_timing(path, subject, kept);
  const auto read = read_data_timing(path, subject);
  REQUIRE(read);
  CHECK(read->measured_at == kept.measured_at);
  CHECK(read->timing.num_distinct == kept.timing.num_distinct);
  CHECK(read->timing.storage_bytes == kept.timing.storage_bytes);
  CHECK(read->timing.stage_seconds == kept.timing.stage_seconds);
  CHECK(read->timing.reducible_share == kept.timing.reducible_share);
  for (const auto rate : {&DataTiming::one_thread, &DataTiming::all_threads}) {
    CHECK((read->timing.*rate).num_threads == (kept.timing.*rate).num_threads);
    CHECK((read->timing.*rate).num_samples == (kept.timing.*rate).num_samples);
    CHECK((read->timing.*rate).seconds == (kept.timing.*rate).seconds);
  }
}

TEST_CASE("A timing is of the data, the processor and its threads, not of the model or of how workers are written") {
  const std::string subject = subject_of({"data.workers=2"});
  CHECK(subject_of({"data.workers=2"}) == subject);
  CHECK(subject_of({"data.workers=2", "train.batch_size=7", "optimizer.lr=0.5", "name=another"}) == subject);
  CHECK(data_timing_path(subject) == data_timing_path(subject_of({"data.workers=2", "seed=1"})));
  for (const std::vector<std::string>& other :
       std::vector<std::vector<std::string>>{{"data.workers=3"},
                                             {"data.workers=2", "data.transforms.train=[{flip: {p: 0.25}}]"},
                                             {"data.workers=2", "data.samples=100"},
                                             {"data.workers=2", "data.split=0.5"}}) {
    INFO(other.back());
    CHECK(subject_of(other) != subject);
    CHECK(data_timing_path(subject_of(other)) != data_timing_path(subject));
  }
  CHECK(subject_of({"data.workers=2"}, 3) != subject);
  // The same words from another folder are other files.
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path("/");
  CHECK(subject_of({"data.workers=2"}) != subject);
  std::filesystem::current_path(before);
}

TEST_CASE("A damaged, foreign or impossible timing of data is refused with what to do") {
  const OutputFolder folder;
  const std::string path = folder.path("data.json"), subject = subject_of({});
  write_data_timing(path, subject, some_data_timing());
  const std::string whole = file_bytes(path);
  const nlohmann::json file = nlohmann::json::parse(whole);
  const auto is_refused = [&](const std::string& text) {
    INFO(text);
    write_bytes(path, text);
    CHECK_THROWS_WITH(read_data_timing(path, subject), Contains(path) && Contains("trainer bench CONFIG --data"));
  };
  for (std::size_t length = 0; length + 2 < whole.size(); length += 13) is_refused(whole.substr(0, length));
  is_refused("[]");
  is_refused(std::string(100'000, '['));
  const auto patched = [&](const char* patch) {
    nlohmann::json changed = file;
    changed.merge_patch(nlohmann::json::parse(patch));
    return changed.dump();
  };
  for (const char* patch : {R"({"format": 2})",
                            R"({"subject": "{}"})",
                            R"({"subject": 1})",
                            R"({"measured_at": -1})",
                            R"({"measured_at": 253402300800})",
                            R"({"measured_at": 1.5})",
                            R"({"distinct_samples": 0})",
                            R"({"storage_bytes": -1})",
                            R"({"one_thread": null})",
                            R"({"one_thread": {"threads": 0}})",
                            R"({"all_threads": {"threads": 65537}})",
                            R"({"all_threads": {"samples": 0}})",
                            R"({"all_threads": {"samples": "1"}})",
                            R"({"all_threads": {"seconds": 0}})",
                            R"({"all_threads": {"seconds": -1}})",
                            R"({"all_threads": {"seconds": 1e300}})",
                            R"({"all_threads": {"samples": 1000000000000, "seconds": 0.5}})",
                            R"({"stage_seconds": []})",
                            R"({"stage_seconds": {"decode": -1}})",
                            R"({"stage_seconds": {"copy": null}})",
                            R"({"reducible_share": 1.5})"})
    is_refused(patched(patch));
  write_bytes(path, patched(R"({"all_threads": {"threads": 7}})"));
  CHECK(read_data_timing(path, subject)->timing.all_threads.num_threads == 7);
  CHECK_THROWS_WITH(read_data_timing(path, subject_of({"data.split=0.5"})), Contains("other data"));
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  CHECK_THROWS_WITH(read_data_timing(path, subject), Contains("trainer bench CONFIG --data"));
}
