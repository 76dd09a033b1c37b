// bench_kernels: how fast each own kernel is on a GPU, beside the device's own copy, and what could stand in its place:
// the library's fused products beside plain ones with a kernel of ours behind them, and cuDNN's engines for a
// convolution beside each other.
//
//   bench_kernels --list            the cases' names
//   bench_kernels --list-kernels    "KERNEL CASE" for each kernel of each case
//   bench_kernels [--json FILE] [--min-mib N] [--repetitions N] [CASE…]     a line of JSON each, and all in FILE
//   bench_kernels --once CASE       one launch of poisoned and random memory, to be looked at by a profiler
//
// A CASE may have *, ? and […] as in a shell. Without a GPU it says SKIPPED.

#include <fmt/format.h>
#include <fnmatch.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "cuda/device/cuda_call.h"
#include "cuda/device/stream_handles.h"
#include "engine/errors.h"
#include "tests/bench_kernels/candidate_library.h"
#include "tests/bench_kernels/case_memory.h"
#include "tests/bench_kernels/case_timing.h"

namespace trainer::cuda {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string json_path;
  std::int64_t min_mib = 64;
  int repetitions = 15;
  std::string once;
  std::vector<std::string> patterns;
};

bool is_asked_for(const KernelCase& tried, const std::vector<std::string>& patterns) {
  return patterns.empty() || std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
           return fnmatch(pattern.c_str(), tried.name.c_str(), 0) == 0;
         });
}

/// Throws ConfigError for a pattern that no case has.
KernelCases chosen_cases(const std::vector<std::string>& patterns) {
  const KernelCases all = kernel_cases();
  for (const std::string& pattern : patterns)
    if (std::none_of(all.begin(), all.end(), [&](const KernelCase& tried) { return is_asked_for(tried, {pattern}); }))
      throw ConfigError(fmt::format("no case is called {}: --list names them", pattern));
  KernelCases chosen;
  for (const KernelCase& tried : all)
    if (is_asked_for(tried, patterns)) chosen.push_back(tried);
  return chosen;
}

/// Empty where kernels of this build can run on the first GPU.
std::string problem_of_device(cudaDeviceProp& properties) {
  int num_devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&num_devices);
  if (error != cudaSuccess) return cudaGetErrorString(error);
  if (num_devices == 0) return "there is none";
  require_cuda(cudaGetDeviceProperties(&properties, 0), "read a device's properties");
  const int capability = 10 * properties.major + properties.minor;
  if (capability < least_compute_capability)
    return fmt::format("{} has compute capability {}.{}", properties.name, properties.major, properties.minor);
  use_device(0);
  return "";
}

class Bench {
 public:
  Bench(const Options& options, const cudaDeviceProp& device)
      : options_(options), l2_bytes_(device.l2CacheSize), memory_(bytes_to_take()) {}

  double measure_copy() {
    copied_per_second_ = copy_bytes_per_second(memory_.begin(), std::min(memory_.num_bytes(), std::int64_t{1} << 30),
                                               options_.repetitions, stream_.get());
    return copied_per_second_;
  }

  /// A row of the result for each way in which the case is computed.
  std::vector<Json> time(const KernelCase& tried) {
    std::vector<Json> rows;
    std::size_t num_candidates = 1;
    for (std::size_t candidate = 0; candidate < num_candidates; ++candidate) {
      library_.choose(candidate);
      Json row = {{"name", tried.name}, {"kernel", kernel_text(tried)}};
      try {
        time_one(tried, row);
        if (tried.has_candidates) {
          num_candidates = library_.num_candidates();
          row["kernel"] = library_.engine();
          if (candidate > 0) row["name"] = fmt::format("{}#{}", tried.name, candidate);
        }
      } catch (const DeviceError& error) {
        row["error"] = error.what();
        // A fault of the device stays; whatever else went wrong was this case's.
        cudaGetLastError();
        is_lost_ = cudaDeviceSynchronize() != cudaSuccess;
        num_candidates = tried.has_candidates && !is_lost_ ? library_.num_candidates() : 0;
      }
      rows.push_back(std::move(row));
    }
    library_.choose(0);
    return rows;
  }

  void launch_once(const KernelCase& tried) {
    const SizedCase sized = tried.sized(units_of(tried), library_);
    require_fit(sized);
    const auto sets = memory_.place(sized, 1, stream_.get());
    require_cuda(cudaStreamSynchronize(stream_.get()), "fill operands");
    sized.launch(OperandAddresses(sets[0]), stream_.get());
    require_cuda(cudaStreamSynchronize(stream_.get()), "run a kernel");
  }

  /// The device takes no more work.
  bool is_lost() const { return is_lost_; }

 private:
  static std::int64_t bytes_to_take() {
    constexpr std::int64_t wanted = std::int64_t{8} << 30;
    std::size_t free_bytes = 0, total_bytes = 0;
    require_cuda(cudaMemGetInfo(&free_bytes, &total_bytes), "read how much memory is free");
    return std::min(wanted, static_cast<std::int64_t>(free_bytes) / 10 * 8) / 512 * 512;
  }

  static std::string kernel_text(const KernelCase& tried) {
    std::string text;
    for (const std::string& kernel : tried.kernels) text += (text.empty() ? "" : "|") + kernel;
    return text.empty() ? "library" : text;
  }

  std::int64_t units_of(const KernelCase& tried) {
    std::int64_t units = tried.units;
    while (tried.grows && tried.sized(units, library_).bytes < options_.min_mib << 20) units *= 2;
    return units;
  }

  void require_fit(const SizedCase& sized) const {
    if (CaseMemory::set_bytes(sized) > memory_.num_bytes())
      throw DeviceError(fmt::format("its operands take {} bytes where {} could be taken", CaseMemory::set_bytes(sized),
                                    memory_.num_bytes()));
  }

  void time_one(const KernelCase& tried, Json& row) {
    const SizedCase sized = tried.sized(units_of(tried), library_);
    require_fit(sized);
    // Round by round in other memory, so that nothing is found in the cache that would not be there in a step. What is
    // about a small size finds it there, as it would in a small step.
    const std::int64_t set_bytes = std::max<std::int64_t>(1, CaseMemory::set_bytes(sized));
    const std::int64_t wanted_sets = tried.grows || tried.has_candidates ? 4 * l2_bytes_ / set_bytes + 1 : 1;
    const std::int64_t num_sets = std::min(wanted_sets, memory_.num_bytes() / set_bytes);
    const auto sets = memory_.place(sized, num_sets, stream_.get());
    const auto launches = static_cast<int>((launches_for(sized) + num_sets - 1) / num_sets * num_sets);
    const double seconds = median_seconds(
        [&](int index, cudaStream_t stream) {
          sized.launch(OperandAddresses(sets[static_cast<std::size_t>(index) % sets.size()]), stream);
        },
        launches, options_.repetitions, stream_.get());
    row["bytes"] = sized.bytes;
    row["seconds"] = seconds;
    const double rate = static_cast<double>(sized.bytes) / seconds;
    row["share_of_copy"] = tried.moves_memory ? Json(rate / copied_per_second_) : Json(nullptr);
    row["shape"] = sized.shape;
    row["launches"] = launches;
  }

  /// As many as take some 300 µs if they move their bytes as fast as a copy, and no less than 4 µs each.
  std::int64_t launches_for(const SizedCase& sized) const {
    const double seconds = std::max(4e-6, static_cast<double>(sized.bytes) / copied_per_second_);
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(300e-6 / seconds));
  }

  Options options_;
  std::int64_t l2_bytes_;
  OwnedStream stream_;
  CaseMemory memory_;
  CandidateLibrary library_;
  double copied_per_second_ = 0;
  bool is_lost_ = false;
};

int run(const Options& options) {
  cudaDeviceProp properties{};
  const KernelCases cases =
      chosen_cases(options.once.empty() ? options.patterns : std::vector<std::string>{options.once});
  if (const std::string problem = problem_of_device(properties); !problem.empty()) {
    fmt::print("SKIPPED: needs a GPU: {}\n", problem);
    return 0;
  }
  Bench bench(options, properties);
  if (!options.once.empty()) {
    bench.launch_once(cases.at(0));
    fmt::print("{}\n", Json{{"name", cases[0].name}, {"launched", 1}}.dump());
    return 0;
  }
  Json result = {
      {"device", properties.name}, {"copy_bytes_per_second", bench.measure_copy()}, {"cases", Json::array()}};
  for (const KernelCase& tried : cases) {
    for (const Json& row : bench.time(tried)) {
      fmt::print("{}\n", row.dump());
      std::fflush(stdout);
      result["cases"].push_back(row);
    }
    if (bench.is_lost()) break;
  }
  if (!options.json_path.empty()) {
    std::ofstream file(options.json_path);
    file << result.dump(1) << "\n";
    if (!file.flush()) throw DataError(fmt::format("could not write {}", options.json_path));
  }
  return bench.is_lost() ? 1 : 0;
}

int list(bool with_kernels) {
  for (const KernelCase& tried : kernel_cases()) {
    if (!with_kernels) fmt::print("{}\n", tried.name);
    for (const std::string& kernel : tried.kernels)
      if (with_kernels) fmt::print("{} {}\n", kernel, tried.name);
  }
  return 0;
}

}  // namespace
}  // namespace trainer::cuda

int main(int argc, char** argv) {
  CLI::App app("times the CUDA kernels");
  trainer::cuda::Options options;
  bool lists = false, lists_kernels = false;
  app.add_flag("--list", lists, "print the cases' names");
  app.add_flag("--list-kernels", lists_kernels, "print each kernel with each of its cases");
  app.add_option("--json", options.json_path, "write all results to this file");
  app.add_option("--min-mib", options.min_mib, "MiB that a launch moves at least")->check(CLI::NonNegativeNumber);
  app.add_option("--repetitions", options.repetitions, "of which the median is told")->check(CLI::PositiveNumber);
  app.add_option("--once", options.once, "launch this case a single time");
  app.add_option("CASE", options.patterns, "cases to time; all where none is named");
  CLI11_PARSE(app, argc, argv);
  try {
    if (lists || lists_kernels) return trainer::cuda::list(lists_kernels);
    return trainer::cuda::run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_kernels: {}\n", error.what());
    return 1;
  }
}
