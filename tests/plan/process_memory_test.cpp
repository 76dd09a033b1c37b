#include "engine/plan/process_memory.h"

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
