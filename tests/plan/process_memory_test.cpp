#include "engine/plan/process_memory.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "engine/config/load_experiment.h"
#include "tests/device/described_device.h"

using namespace trainer;

namespace {

/// One whose memory is the host's.
class DescribedCpu : public DescribedDevice {
 public:
  std::string kind() const override { return "cpu"; }
};

}  // namespace

TEST_CASE("A batch of the whole training set is staged as one of as many samples") {
  const DescribedCpu device;
  const DataDescription data = described_data({4}, 3, 1000, 2000);
  const auto reserve = [&](const std::string& batch_size) {
    const Experiment experiment =
        parse_experiment("model: {layers: [linear: {out: 3}]}\n", "test.yaml", {"train.batch_size=" + batch_size});
    return host_reserve(experiment, data, device, /*dataset_is_loaded=*/true);
  };
  CHECK(reserve("all") == reserve("1000"));
  CHECK(reserve("all") > reserve("999"));
  CHECK(reserve("auto") == reserve("1"));
}

TEST_CASE("What readers hold is exact, but for libraries of theirs and for images without files") {
  const DescribedCpu device;
  const Experiment experiment = parse_experiment("model: {layers: [linear: {out: 3}]}\n", "test.yaml", {});
  DataDescription data = described_data({4}, 3, 100, 0);
  data.num_readers = 3;
  data.reader_bytes = 1000;
  const auto parts = [&] { return process_memory(experiment, Program(), data, device).parts; };
  const auto has = [&](const NamedBytes& part) {
    const auto all = parts();
    return std::find(all.begin(), all.end(), part) != all.end();
  };
  CHECK(has({"image readers", 3000}));
  data.reader_library_bytes = 70;
  CHECK(has({"image readers", 3000}));
  CHECK(has({"libwebp in image readers (estimated)", 210}));
  data.estimates_readers = true;
  CHECK(has({"image readers (estimated)", 3000}));
  // Beside the threads training reads the targets that its loss weighs.
  data.estimates_readers = false;
  const Experiment weighing = parse_experiment(
      "model: {layers: [linear: {out: 3}]}\nloss: {cross_entropy: {class_weights: [1, 2, 3]}}\n", "test.yaml", {});
  const auto of_weighing = [&] {
    const auto all = process_memory(weighing, Program(), data, device).parts;
    return std::find_if(all.begin(), all.end(), [](const auto& part) { return part.name == "image readers"; })
        ->num_bytes;
  };
  const auto reserve = [&](const Experiment& each) { return host_reserve(each, data, device, true); };
  CHECK(of_weighing() == 3000);
  CHECK(reserve(weighing) == reserve(experiment));
  data.target = TensorType{DType::i32, {2, 2}};  // a mask goes through transforms
  CHECK(of_weighing() == 4000);
  CHECK(reserve(weighing) == reserve(experiment) + 1070);
}

TEST_CASE("data.memory is kept by fewer threads that read, or refused where not even one is within it") {
  const DescribedCpu device;
  DataDescription data = described_data({4}, 3, 1000, 0);
  data.reader_bytes = 1000;
  data.num_readers = 4;
  data.held_bytes = 500;
  const auto with_memory = [&](std::int64_t num_bytes) {
    return parse_experiment("model: {layers: [linear: {out: 3}]}\ntrain: {batch_size: 10}\n", "test.yaml",
                            {"data.memory=" + std::to_string(num_bytes)});
  };
  // The dataset, and a batch with the order of the samples.
  const std::int64_t beside = 500 + num_staged_batches(device) * 10 * data.sample_bytes() + 1000 * 4;
  CHECK(num_readers(with_memory(0), data, device) == 4);
  CHECK(num_readers(with_memory(beside + 4000), data, device) == 4);
  CHECK(num_readers(with_memory(beside + 3999), data, device) == 3);
  CHECK(num_readers(with_memory(beside + 1000), data, device) == 1);
  CHECK_NOTHROW(check_input_memory(with_memory(beside + 1000), data, device));
  CHECK_NOTHROW(check_input_memory(with_memory(0), data, device));
  CHECK_THROWS_WITH(check_input_memory(with_memory(beside + 999), data, device),
                    Catch::Contains("data.memory is") && Catch::Contains("a thread that reads 1000 B"));
}
