#include "engine/cpu/cpu_device.h"
#include "tests/whole_runs/residual_checks.h"
#include "tests/whole_runs/training_fixture.h"

using namespace trainer;

TEST_CASE("Sums that are part of a norm change no bit of a run") {
  check_fused_residuals_change_no_bit(*make_cpu_device(1));
}

TEST_CASE("An operand that stands twice is written over once") {
  const OutputFolder folder;
  const auto bytes_with = [&](const std::string& name, const std::string& setting) {
    // The layer's output has two names.
    TestRun run(
        "name: twice\ndata: {type: synthetic, shape: [3, 2, 8], classes: 3, samples: 12}\nmodel:\n  layers:\n"
        "    - linear: {out: 8, name: x}\n    - attention: {heads: 2, causal: true, from: [x, x, x]}\n"
        "    - sequential: {name: a, layers: [linear: {out: 8, name: b}]}\n    - add: {from: [a, a.b]}\n"
        "    - layernorm\n    - linear: {out: 8, name: g}\n    - swiglu: {from: [g, g]}\n"
        "    - sequential: {name: c, layers: [linear: {out: 8, name: d}]}\n    - multiply: {from: [c, c.d]}\n"
        "    - flatten\n    - linear: {out: 3}\noptimizer: {type: sgd, lr: 0.1}\ntrain: {batch_size: 4, steps: 3}\n",
        folder.path(name), {setting});
    REQUIRE(run() == RunStatus::done);
    return file_bytes(checkpoint_file(folder.path(name), 3, "model.safetensors"));
  };
  const bool is_same = bytes_with("in place", "memory.in_place=true") == bytes_with("apart", "memory.in_place=false");
  CHECK(is_same);
}
