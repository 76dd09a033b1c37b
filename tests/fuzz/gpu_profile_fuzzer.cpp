#include "engine/config/gpu_profile.h"
#include "tests/fuzz/fuzzers.h"

namespace trainer {

void read_fuzzed_gpu_profile(std::string_view input) {
  const GpuProfile profile = parse_gpu_profile(input, "fuzzed.yaml");
  (void)profile.free_bytes();
  (void)profile.cudnn_path();
}

}  // namespace trainer
