#include <fmt/format.h>
#include <spdlog/version.h>
#include <sys/utsname.h>
#include <zlib.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/bounded_spin.h"
#include "cli/commands/commands.h"
#include "cli/terminal/help_formatter.h"
#include "cli/terminal/terminal.h"
#include "cuda/model/load_module.h"
#include "datasets/text/text_pattern.h"
#include "engine/bytes.h"
#include "engine/config/text/json_output.h"
#include "engine/cpu/cpu_device.h"
#include "engine/device/device.h"
#include "engine/ranks/mpi_library.h"
#include "engine/report/memory/memory_json.h"
#include "engine/report/text/style.h"

namespace trainer {
namespace {

struct Fact {
  std::string name, value;
};

std::vector<Fact> build_facts() {
  std::string options;
#ifdef NDEBUG
  options = "release";
#else
  options = "debug";
#endif
#if defined(__SANITIZE_ADDRESS__)
  options += ", address sanitizer";
#endif
  utsname system{};
  uname(&system);
  return {{"trainer", TRAINER_VERSION},
          {"build", options},
          {"compiler", "g++ " __VERSION__},
          {"system", fmt::format("{} {} {}", system.sysname, system.release, system.machine)}};
}

/// What ranks that mpirun starts use.
std::string open_mpi() {
  const Mpi* const library = mpi_or_null();
  return library == nullptr ? "none, which no run needs" : fmt::format("{}, {}", library->version(), library->path());
}

std::vector<Fact> library_facts() {
  return {{"oneDNN", cpu_library_version()},
          {"fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100)},
#ifdef TRAINER_YAML_CPP_VERSION
          {"yaml-cpp", TRAINER_YAML_CPP_VERSION},
#endif
          {"nlohmann-json", fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
                                        NLOHMANN_JSON_VERSION_PATCH)},
          {"spdlog", fmt::format("{}.{}.{}", SPDLOG_VER_MAJOR, SPDLOG_VER_MINOR, SPDLOG_VER_PATCH)},
          {"CLI11", CLI11_VERSION},
          {"zlib", zlibVersion()},
          {"PCRE2", pattern_library_version()},
          {"Open MPI", open_mpi()}};
}

void print_lines(const std::vector<Fact>& facts) {
  std::string text;
  for (const Fact& fact : facts) text += fmt::format("  {}  {}\n", pad_right(fact.name, 14), fact.value);
  write_text(stdout, wrap_lines(text, static_cast<std::size_t>(style_for(stdout).width)));
}

void print_facts(const char* title, const std::vector<Fact>& facts) {
  write_text(stdout, fmt::format("{}\n", title));
  print_lines(facts);
}

/// Empty versions, and a problem, where the module cannot be loaded.
cuda::CudaFacts cuda_facts() {
  cuda::CudaFacts facts;
  const cuda::Module* module = cuda::load_module(facts.problem);
  return module != nullptr ? module->facts(/*tries_devices=*/true) : facts;
}

nlohmann::ordered_json to_json(const cuda::CudaDeviceInfo& device) {
  nlohmann::ordered_json report = {{"kind", "cuda"},
                                   {"index", device.index},
                                   {"name", device.name},
                                   {"compute_capability", device.compute_capability},
                                   {"capacity", device.free_bytes},
                                   {"total", device.total_bytes},
                                   {"sm_clock", device.sm_clock},
                                   {"memory_clock", device.memory_clock},
                                   {"used_counts", device.used_bytes_origin},
                                   {"notes", device.notes},
                                   {"problem", device.problem}};
  if (!device.cudnn_properties.empty())
    report["cudnn_properties"] = nlohmann::ordered_json::parse(device.cudnn_properties, nullptr, false);
  report["outside_allocator"] = nlohmann::ordered_json::object();
  for (const NamedBytes& part : device.outside_bytes) report["outside_allocator"][part.name] = part.num_bytes;
  report["processes"] = nlohmann::ordered_json::array();
  for (const DeviceProcess& process : device.processes)
    report["processes"].push_back({{"pid", process.pid}, {"name", process.name}, {"bytes", process.num_bytes}});
  return report;
}

std::vector<Fact> facts_of(const cuda::CudaFacts& cuda) {
  std::vector<Fact> facts;
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) facts.push_back({name, value});
  };
  add("toolkit", cuda.toolkit);
  add("cuBLASLt", cuda.cublas);
  add("cuDNN", cuda.cudnn);
  add("NCCL", cuda.nccl.empty() && !cuda.toolkit.empty() ? "none, which ranks of GPUs need" : cuda.nccl);
  add("driver", cuda.toolkit.empty() || !cuda.driver.empty() ? cuda.driver : "none");
  add("kernels for", cuda.architectures);
  add("problem", cuda.problem);
  return facts;
}

std::vector<Fact> facts_of(const cuda::CudaDeviceInfo& device) {
  std::vector<Fact> facts = {{fmt::format("cuda:{}", device.index), device.name}};
  if (device.compute_capability > 0)
    facts.push_back(
        {"  capability", fmt::format("{}.{}", device.compute_capability / 10, device.compute_capability % 10)});
  if (device.total_bytes > 0) facts.push_back({"  total", format_bytes(device.total_bytes)});
  if (device.free_bytes > 0) facts.push_back({"  capacity", format_bytes(device.free_bytes) + " available now"});
  for (const NamedBytes& part : device.outside_bytes)
    facts.push_back({"  outside", fmt::format("{} {}", format_bytes(part.num_bytes), part.name)});
  if (!device.used_bytes_origin.empty()) facts.push_back({"  used counts", device.used_bytes_origin});
  if (device.sm_clock > 0)
    facts.push_back({"  clocks", fmt::format("{} MHz SM, {} MHz memory", device.sm_clock, device.memory_clock)});
  for (const DeviceProcess& process : device.processes)
    facts.push_back({"  process", fmt::format("{} {} {}", process.pid, process.name, format_bytes(process.num_bytes))});
  for (const std::string& note : device.notes) facts.push_back({"  note", note});
  if (!device.problem.empty()) facts.push_back({"  problem", device.problem});
  return facts;
}

ExitCode examine(bool json) {
  bound_spinning();  // as the commands that compute
  const std::unique_ptr<Device> device = make_cpu_device(0);
  const cuda::CudaFacts cuda = cuda_facts();
  if (json) {
    nlohmann::ordered_json report = {{"event", "doctor"}, {"schema", event_schema_version}};
    for (const Fact& fact : build_facts()) report[fact.name] = fact.value;
    for (const Fact& fact : library_facts()) report["libraries"][fact.name] = fact.value;
    report["devices"] = nlohmann::ordered_json::array();
    report["devices"].push_back({{"kind", device->kind()},
                                 {"name", device->name()},
                                 {"capacity", device->available_bytes()},
                                 {"total", device->total_bytes()},
                                 {"used", device->used_bytes()},
                                 {"waiting_threads", waiting_of_threads()}});
    for (const cuda::CudaDeviceInfo& info : cuda.devices) report["devices"].push_back(to_json(info));
    report["cuda"] = {{"toolkit", cuda.toolkit}, {"cublas", cuda.cublas}, {"cudnn", cuda.cudnn},
                      {"nccl", cuda.nccl},       {"driver", cuda.driver}, {"architectures", cuda.architectures},
                      {"problem", cuda.problem}};
    write_exactly(stdout, json_text(report) + '\n');
    return ExitCode::done;
  }
  print_facts("Build", build_facts());
  print_facts("\nLibraries", library_facts());
  print_facts("\nDevices", {{device->kind(), device->name()},
                            {"  total", format_bytes(device->total_bytes())},
                            {"  capacity", format_bytes(device->available_bytes()) + " available now"},
                            {"  used", format_bytes(device->used_bytes()) + " by this process"},
                            {"  threads", fmt::format("that wait {}", waiting_of_threads())}});
  for (const cuda::CudaDeviceInfo& info : cuda.devices) print_lines(facts_of(info));
  print_facts("\nCUDA", facts_of(cuda));
  return ExitCode::done;
}

}  // namespace

void add_doctor_command(CLI::App& app, Action& action) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("doctor", "Tell the build, its libraries, the devices and their capacity");
  command->add_flag("--json", *json, "Print one JSON object");
  command->footer(examples({"doctor"}));
  command->callback([json, &action] { action = [json] { return examine(*json); }; });
}

}  // namespace trainer
