#include "tests/op_cases/op_timing.h"

#include <fnmatch.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <ostream>

#include "engine/ops/op_definition.h"
#include "tests/op_cases/case_selection.h"
#include "tests/op_cases/larger_cases.h"
#include "tests/op_cases/op_checks.h"
#include "tests/op_cases/operand_memory.h"

namespace trainer {

namespace {

using Seconds = std::chrono::duration<double>;

/// Of the ops whose names fit, with *, ? and […] as in a shell, the largest cases.
std::vector<OpCase> timed_cases(const std::string& pattern) {
  std::vector<OpCase> all = larger_cases();
  for (const auto& [name, cases] : cases_of_every_op()) all.insert(all.end(), cases.begin(), cases.end());
  std::erase_if(all, [&](const OpCase& op_case) {
    return fnmatch(pattern.c_str(), std::string(name_of(op_case.op.kind)).c_str(), 0) != 0;
  });
  return at_most(1, std::move(all));
}

/// The operands of one case on a device, and its kernel.
class PreparedCase {
 public:
  PreparedCase(Device& device, const OpCase& op_case) : device_(device), memory_(device), scalars_(op_case.scalars) {
    const Op& op = op_case.op;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) memory_.add(to_bytes(op.inputs[i], op_case.inputs[i]));
    for (const TensorType& type : op.outputs) memory_.add(static_cast<std::size_t>(type.num_bytes()), std::byte{0});
    const auto workspace_bytes = static_cast<std::size_t>(device.workspace_bytes(op));
    const std::size_t workspace = memory_.add(workspace_bytes, std::byte{0});
    memory_.to_device();
    for (std::size_t i = 0; i < op.inputs.size(); ++i) inputs_.push_back(memory_.address(i));
    for (std::size_t i = 0; i < op.outputs.size(); ++i) outputs_.push_back(memory_.address(op.inputs.size() + i));
    workspace_ = workspace_bytes > 0 ? memory_.address(workspace) : nullptr;
    kernel_ = &device.prepare(op);
  }

  /// Seconds of `count` runs, one behind the other.
  double time(std::int64_t count) {
    device_.begin_pass(scalars_, {});
    device_.synchronize();
    const auto start = std::chrono::steady_clock::now();
    for (std::int64_t i = 0; i < count; ++i) kernel_->run({inputs_, outputs_, workspace_});
    device_.synchronize();
    return Seconds(std::chrono::steady_clock::now() - start).count();
  }

 private:
  Device& device_;
  OperandMemory memory_;
  StepScalars scalars_;
  std::vector<void*> inputs_, outputs_;
  void* workspace_ = nullptr;
  Kernel* kernel_ = nullptr;
};

/// The median of five samples, in which the op runs as often as fits.
nlohmann::ordered_json timing_of(Device& device, const OpCase& op_case, double seconds) {
  PreparedCase prepared(device, op_case);
  std::int64_t count = 1;
  while (prepared.time(count) < seconds / 10 && count < 1 << 20) count *= 2;
  std::vector<double> samples;
  for (int i = 0; i < 5; ++i) samples.push_back(prepared.time(count) / static_cast<double>(count));
  std::sort(samples.begin(), samples.end());
  const Op& op = op_case.op;
  std::int64_t num_bytes = 0;
  nlohmann::ordered_json inputs = nlohmann::ordered_json::array();
  for (const TensorType& type : op.inputs) {
    num_bytes += type.num_bytes();
    inputs.push_back(type.to_string());
  }
  for (const TensorType& type : op.outputs) num_bytes += type.num_bytes();
  const auto flops = static_cast<double>(definition_of(op.kind).flops(op));
  return {{"op", name_of(op.kind)},
          {"case", op_case.name},
          {"inputs", inputs},
          {"microseconds", samples[2] * 1e6},
          {"gigabytes_per_second", static_cast<double>(num_bytes) / samples[2] * 1e-9},
          {"gflops", flops / samples[2] * 1e-9}};
}

}  // namespace

void time_ops(Device& device, std::ostream& lines) {
  const char* const pattern = std::getenv("TRAINER_TIMED_OPS");
  const char* const seconds = std::getenv("TRAINER_SECONDS_PER_OP");
  for (const OpCase& op_case : timed_cases(pattern == nullptr ? "*" : pattern))
    lines << timing_of(device, op_case, seconds == nullptr ? 0.1 : std::atof(seconds)).dump() << std::endl;
}

}  // namespace trainer
