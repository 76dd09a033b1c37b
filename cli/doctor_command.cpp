#include <fmt/format.h>
#include <spdlog/version.h>
#include <sys/utsname.h>
#include <zlib.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "engine/bytes.h"
#include "engine/cpu/cpu_device.h"
#include "engine/device/device.h"
#include "engine/report/style.h"

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
          {"zlib", zlibVersion()}};
}

void print_facts(std::string_view title, const std::vector<Fact>& facts) {
  fmt::print("{}\n", title);
  for (const Fact& fact : facts) fmt::print("  {} {}\n", pad_right(fact.name, 15), fact.value);
}

ExitCode examine(bool json) {
  const std::unique_ptr<Device> device = make_cpu_device(0);
  if (json) {
    nlohmann::ordered_json report = {{"event", "doctor"}};
    for (const Fact& fact : build_facts()) report[fact.name] = fact.value;
    for (const Fact& fact : library_facts()) report["libraries"][fact.name] = fact.value;
    report["devices"] = nlohmann::ordered_json::array();
    report["devices"].push_back({{"kind", device->kind()},
                                 {"name", device->name()},
                                 {"capacity", device->available_bytes()},
                                 {"total", device->total_bytes()},
                                 {"used", device->used_bytes()}});
    fmt::print("{}\n", report.dump());
    return ExitCode::done;
  }
  print_facts("Build", build_facts());
  print_facts("\nLibraries", library_facts());
  print_facts("\nDevices", {{device->kind(), device->name()},
                            {"  total", format_bytes(device->total_bytes())},
                            {"  capacity", format_bytes(device->available_bytes()) + " available now"},
                            {"  used", format_bytes(device->used_bytes()) + " by this process"},
                            {"cuda", "not in this build"}});
  return ExitCode::done;
}

}  // namespace

void add_doctor_command(CLI::App& app, Action& action) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("doctor", "Tell the build, its libraries, the devices and their capacity");
  command->add_flag("--json", *json, "Print one JSON object");
  command->footer("Example:\n  trainer doctor");
  command->callback([json, &action] { action = [json] { return examine(*json); }; });
}

}  // namespace trainer
