#include <catch2/catch.hpp>

#include "engine/cpu/cpu_device.h"
#include "tests/cuda/emulated_device.h"
#include "tests/whole_runs/stage_checks.h"

using namespace trainer;
using namespace trainer::cuda;

namespace {

void check_close(const std::vector<double>& found, const std::vector<double>& wanted) {
  REQUIRE(found.size() == wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == Approx(wanted[i]).epsilon(2e-3));
}

}  // namespace

TEST_CASE("stages hold on the emulated GPU what they are planned to, and learn what they learn on the CPU") {
  check_close(check_stages_of_images(*make_emulated_device()), check_stages_of_images(*make_cpu_device(2)));
  check_close(check_stages_of_features(*make_emulated_device()), check_stages_of_features(*make_cpu_device(2)));
}
