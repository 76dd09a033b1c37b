#include "engine/report/plan/data_supply_text.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "engine/report/plan/plan_json.h"
#include "engine/report/plan/plan_report.h"

using namespace trainer;
using Catch::Contains;

namespace {

/// 1,480 images a second by two threads, of which steps need 3,100.
PlanFindings slow_data() {
  PlanFindings findings;
  findings.experiment_name = "streets";
  findings.config_path = "streets.yaml";
  findings.total_steps = 10;
  findings.time.seconds = 0.1;
  findings.samples_per_step = 310;
  DataSupply supply;
  supply.timing.one_thread = {1, 2'400, 3};
  supply.timing.all_threads = {2, 4'440, 3};
  supply.timing.stage_seconds = {1e-4, 4e-4, 4e-4, 1e-4};
  supply.measured_at = 1'764'028'800;
  supply.needed = 3'100;
  supply.usable_threads = 8;
  supply.are_image_files = supply.are_images_kept = true;
  findings.data_supply = supply;
  return findings;
}

std::string told(const PlanFindings& findings) { return data_supply_text(findings, {false, 1000}); }

}  // namespace

TEST_CASE("Data that is too slow is told with what would make it fast enough, as far as that is known") {
  PlanFindings findings = slow_data();
  DataSupply& supply = *findings.data_supply;
  CHECK(
      told(findings) ==
      "Data: needs 3,100 images/s; 2 threads of this machine prepare 1,480 (measured 2025-11-25). Training would wait "
      "for it 52 % of the time. data.workers=5 should do.\n");
  CHECK_THAT(plan_report(findings, {false, 1000}), Contains("A step takes about 100 ms") && Contains(told(findings)));
  supply.usable_threads = 4;
  CHECK_THAT(told(findings), Contains("time. data.workers=4 should prepare 2,960.\n"));
  // Where all threads read already, or steps need them, more would not help.
  supply.usable_threads = 2;
  CHECK_THAT(told(findings), Contains("52 % of the time.\n"));
  supply.usable_threads = 8;
  supply.steps_use_threads = true;
  CHECK_THAT(told(findings),
             Contains("The steps are computed on the same cores. Training") && !Contains("data.workers"));
}

TEST_CASE("Images that are decoded again in every epoch are told with the cache, where that would be faster") {
  PlanFindings findings = slow_data();
  DataSupply& supply = *findings.data_supply;
  supply.are_images_kept = false;
  // Of 1 ms 0.5 are read and decoded, and another copy takes 0.1.
  CHECK_THAT(told(findings), Contains("data.workers=5 should do. data.cache=disk, which decodes each image once, "
                                      "should prepare at least 2,467.\n"));
  supply.timing.stage_seconds = {1e-5, 1e-4, 8e-4, 9e-5};
  CHECK_THAT(told(findings), !Contains("data.cache"));
  supply.timing.stage_seconds = {1e-4, 4e-4, 4e-4, 1e-4};
  supply.are_image_files = false;
  CHECK_THAT(told(findings), !Contains("data.cache"));
}

TEST_CASE("Slow decoding is told with smaller images, and with reduced decoding where that applies") {
  PlanFindings findings = slow_data();
  DataSupply& supply = *findings.data_supply;
  supply.usable_threads = 2;
  supply.are_images_kept = false;
  supply.timing.stage_seconds = {1e-4, 8e-4, 1e-4, 0};
  CHECK_THAT(told(findings),
             Contains("at least 14,800. Decoding takes 80 % of the time: images stored smaller take less.\n"));
  supply.timing.reducible_share = 0.93;
  CHECK_THAT(told(findings),
             Contains("at least 14,800. Or data.reduced_decoding=true decodes 93 % of the images at a half or less. "
                      "Decoding takes 80 %"));
  supply.decodes_reduced = true;
  CHECK_THAT(told(findings), !Contains("reduced_decoding"));
  supply.timing.stage_seconds = {8e-4, 1e-4, 1e-4, 0};
  CHECK_THAT(told(findings), Contains("Reading files takes 80 % of the time: smaller files take less.\n"));
  supply.are_image_files = false;
  CHECK_THAT(told(findings), Contains("needs 3,100 samples/s") && !Contains("files"));
}

TEST_CASE("Data that keeps up is told without advice, and what was not measured only of image files that are there") {
  PlanFindings findings = slow_data();
  findings.data_supply->needed = 1'480;
  CHECK(told(findings) ==
        "Data: needs 1,480 images/s; 2 threads of this machine prepare 1,480 (measured 2025-11-25). That "
        "is fast enough.\n");
  findings.data_supply->timing.all_threads.num_threads = 1;
  CHECK_THAT(told(findings), Contains("1 thread of this machine prepares 1,480"));
  CHECK(findings.data_supply->waiting_share() == 0);
  CHECK(findings.data_supply->more_threads() == 0);

  findings.data_supply = std::nullopt;
  CHECK(told(findings).empty());
  findings.data_is_unmeasured = true;
  CHECK(told(findings) ==
        "Data: not measured; 'trainer bench streets.yaml --data' tells how fast its images are read.\n");
  findings.overrides = {"data.root=my photos"};
  CHECK_THAT(told(findings),
             Contains("was not measured; this does:\n  trainer bench streets.yaml") && Contains("my photos' --data\n"));
  findings.total_steps = 0;
  CHECK(told(findings).empty());
}

TEST_CASE("A plan's object has what was measured of the data, and nothing where nothing was") {
  PlanFindings findings = slow_data();
  const auto data = nlohmann::json::parse(plan_json(findings))["data"];
  CHECK(data["needed_samples_per_second"] == 3'100);
  CHECK(data["samples_per_second"] == 1'480);
  CHECK(data["threads"] == 2);
  CHECK(data["one_thread_samples_per_second"] == 800);
  CHECK(data["keeps_up"] == false);
  CHECK(data["waiting_share"].get<double>() == Approx(1 - 1'480.0 / 3'100));
  CHECK(data["suggested_workers"] == 5);
  CHECK(data["stage_seconds"]["decode"] == 4e-4);
  CHECK(data["measured_at"] == 1'764'028'800);
  findings.data_supply->needed = 1;
  CHECK(nlohmann::json::parse(plan_json(findings))["data"]["suggested_workers"].is_null());
  findings.data_supply = std::nullopt;
  CHECK_FALSE(nlohmann::json::parse(plan_json(findings)).contains("data"));
}
