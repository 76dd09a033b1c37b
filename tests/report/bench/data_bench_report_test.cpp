#include "engine/report/bench/data_bench_report.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/report/report_samples.h"

using namespace trainer;
using Catch::Contains;

namespace {

DataBench sample_data_bench() {
  DataBench bench;
  bench.experiment_name = "streets";
  bench.processor = "a processor, 2 usable threads";
  bench.description.num_train = 5'000;
  bench.description.inputs.resize(1);
  bench.description.inputs.front().type = {DType::u8, Shape{224, 224, 3}};
  bench.description.target = {DType::i32, Shape{}};
  bench.timing.num_distinct = 1'200;
  bench.timing.one_thread = {1, 1'500, 3.0};
  bench.timing.all_threads = {2, 2'700, 3.0};
  bench.timing.stage_seconds = {1e-4, 1.6e-3, 2e-4, 1e-4};
  bench.path = "/cache/data-0.json";
  return bench;
}

}  // namespace

TEST_CASE("The report of data tells both rates, the stages that there are, and what the figures are of") {
  DataBench bench = sample_data_bench();
  const std::string report = data_bench_report(bench, {false, 80});
  CHECK_THAT(report, Contains("Data of streets on a processor, 2 usable threads\n"));
  CHECK_THAT(report, Contains("1 thread         500         1.00 ×         1,500") &&
                         Contains("2 threads        900         1.80 ×         2,700"));
  CHECK_THAT(report, Contains("decode       1.6 ms   80 %") && Contains("copy         100 µs    5 %"));
  CHECK_THAT(report, Contains("1,200 of 5,000 training samples, of 147.00 KiB each"));
  CHECK_THAT(report, Contains("counts nothing that it") && !Contains("reduced_decoding"));
  CHECK_THAT(report, Contains("/cache/data-0.json\n"));
  for (const std::string& line : lines_of(report)) CHECK(display_width(line) <= 80);

  bench.timing.stage_seconds = {2e-3, 0, 0, 0};
  bench.timing.storage_bytes = 3 << 20;
  bench.timing.reducible_share = 0.9;
  const std::string other = data_bench_report(bench, {false, 1000});
  CHECK_THAT(other, !Contains("decode  ") && !Contains("copy  "));
  CHECK_THAT(other, Contains("fetched 3.00 MiB from storage") &&
                        Contains("data.reduced_decoding=true would decode 90 % of them at a half or less."));
  bench.reduced_decoding = true;
  CHECK_THAT(data_bench_report(bench, {false, 1000}), !Contains("data.reduced_decoding"));
}

TEST_CASE("The object of data has both rates and the seconds of each stage") {
  const auto event = nlohmann::json::parse(data_bench_json(sample_data_bench()));
  CHECK(event["event"] == "bench");
  CHECK(event["kept"] == "/cache/data-0.json");
  const auto& data = event["data"];
  CHECK(data["one_thread"]["samples_per_second"] == 500);
  CHECK(data["all_threads"]["threads"] == 2);
  CHECK(data["all_threads"]["samples_per_second"] == 900);
  CHECK(data["stage_seconds"]["decode"] == 1.6e-3);
  CHECK(data["distinct_samples"] == 1'200);
  CHECK(data["train_samples"] == 5'000);
}
