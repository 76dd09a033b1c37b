#include "engine/report/plan/gpu_list.h"
#include "engine/report/memory/memory_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "engine/bytes.h"
#include "engine/config/text/json_output.h"
#include "engine/findings/gpu_profiles.h"
#include "engine/report/text/text_table.h"

namespace trainer {
namespace {

std::string format_rate(double teraflops) { return teraflops > 0 ? fmt::format("{:.4g}", teraflops) : "-"; }

}  // namespace

std::string gpu_profile_table(const std::vector<GpuProfile>& profiles, const Style& style) {
  TextTable table({{"--gpu", Align::left},
                   {"name", Align::left, Narrow::gives_way},
                   {"memory"},
                   {"for tensors"},
                   {"bandwidth"},
                   {"FP32"},
                   {"TF32", Align::right, Narrow::is_left_out},
                   {"FP16"}});
  for (const GpuProfile& profile : profiles) {
    table.add_row({short_name(profile), profile.name, format_bytes(profile.total_bytes),
                   format_bytes(profile.free_bytes()), fmt::format("{} GB/s", profile.bandwidth / 1'000'000'000),
                   format_rate(profile.fp32), format_rate(profile.tf32), format_rate(profile.fp16)});
  }
  return table.render(style, 0) +
         wrap(
             "For tensors: what CUDA leaves a process less what its context and libraries hold, an estimate. FP32, "
             "TF32, FP16: peak TFLOP/s without sparsity.",
             static_cast<std::size_t>(style.width)) +
         '\n';
}

std::string gpu_profile_json(const std::vector<GpuProfile>& profiles) {
  nlohmann::ordered_json gpus = nlohmann::ordered_json::array();
  for (const GpuProfile& profile : profiles) {
    gpus.push_back({{"gpu", short_name(profile)},
                    {"name", profile.name},
                    {"compute_capability", profile.compute_capability / 10.0},
                    {"multiprocessors", profile.num_multiprocessors},
                    {"total", profile.total_bytes},
                    {"usable", profile.usable_bytes},
                    {"capacity", profile.free_bytes()},
                    {"bandwidth", profile.bandwidth},
                    {"links", {{"nvlink", profile.nvlink}, {"pcie", profile.pcie}, {"network", profile.network}}},
                    {"tflops", {{"fp32", profile.fp32}, {"tf32", profile.tf32}, {"fp16", profile.fp16}}}});
  }
  return json_text({{"event", "gpus"}, {"schema", event_schema_version}, {"gpus", gpus}});
}

}  // namespace trainer
