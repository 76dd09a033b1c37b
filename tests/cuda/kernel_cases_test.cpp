// The cases that a GPU is timed with, each at its least size on the host: that they start the kernels they name, that
// every kernel is in one, and that they are given what the kernels need.

#include "tests/kernel_cases/kernel_case.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>

#include "cuda/launch/launched_kernels.h"
#include "engine/half.h"
#include "tests/cuda/emulated_device.h"
#include "tests/cuda/function_names.h"
#include "tests/cuda/host_convolution.h"
#include "tests/cuda/host_matmul.h"
#include "tests/kernel_cases/operand_content.h"
#include "tests/op_cases/operand_memory.h"
#include "tests/source_folder.h"

namespace trainer::cuda {
namespace {

class LibraryOfCases final : public Library {
 public:
  std::unique_ptr<Matmul> prepare(const MatmulCall& call) override { return make_host_matmul(call); }
  std::unique_ptr<Convolution> prepare(const ConvolutionCall& call) override { return make_host_convolution(call); }
  ConvolutionPlanner& convolution_planner() override { return planner_; }

 private:
  HostConvolutionPlanner planner_;
};

using Contents = std::vector<std::vector<std::byte>>;

/// What the operands hold when the case has run where outputs and scratch were filled with `poison`.
Contents run_case(Device& device, const SizedCase& sized, std::byte poison) {
  OperandMemory memory(device);
  for (std::size_t i = 0; i < sized.operands.size(); ++i) {
    const CaseOperand& operand = sized.operands[i];
    if (operand.role == OperandRole::output || operand.role == OperandRole::scratch) {
      memory.add(static_cast<std::size_t>(operand.num_bytes()), poison);
    } else {
      memory.add(operand_content(operand, i, operand.count));
    }
  }
  memory.to_device();
  std::vector<void*> addresses;
  for (std::size_t i = 0; i < sized.operands.size(); ++i)
    addresses.push_back(sized.operands[i].count == 0 ? nullptr : memory.address(i));
  sized.launch(OperandAddresses(addresses), nullptr);
  memory.to_host();
  Contents contents;
  for (std::size_t i = 0; i < sized.operands.size(); ++i) {
    CHECK(memory.guards_hold(i));
    contents.push_back(memory.bytes(i));
  }
  return contents;
}

template <typename T>
bool all_finite(const std::vector<std::byte>& bytes) {
  for (std::size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof(T));
    if constexpr (std::is_same_v<T, double>) {
      if (!std::isfinite(value)) return false;
    } else {
      if (!std::isfinite(to_float(value))) return false;
    }
  }
  return true;
}

bool all_finite(DType type, const std::vector<std::byte>& bytes) {
  switch (type) {
    case DType::f32:
      return all_finite<float>(bytes);
    case DType::f16:
      return all_finite<Float16>(bytes);
    case DType::bf16:
      return all_finite<BFloat16>(bytes);
    case DType::f64:
      return all_finite<double>(bytes);
    default:
      return true;
  }
}

void check_operand(const CaseOperand& operand, std::size_t place, const Contents& first, const Contents& second) {
  INFO("operand " << place);
  if (operand.role == OperandRole::scratch) return;
  // A byte that is not written holds either poison; so does what was computed from one.
  const bool is_written_whole = first[place] == second[place];
  CHECK(is_written_whole);
  CHECK(all_finite(operand.type, first[place]));
  const bool is_unchanged = first[place] == operand_content(operand, place, operand.count);
  if (operand.role == OperandRole::input) CHECK(is_unchanged);
  if (operand.role == OperandRole::modified) CHECK_FALSE(is_unchanged);
}

/// "elementwise_kernel" of "void trainer::cuda::(anonymous namespace)::elementwise_kernel<4, …>(…)"; empty where the
/// function is no kernel.
std::string kernel_of(const std::string& function) {
  std::smatch match;
  return std::regex_search(function, match, std::regex(R"(\b([a-z0-9_]+_kernel)\b)")) ? match[1].str() : "";
}

std::set<std::string> kernels_of_sources() {
  std::set<std::string> kernels;
  for (const auto& entry : std::filesystem::directory_iterator(source_folder() + "/cuda/kernels")) {
    std::ifstream stream(entry.path());
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    const std::regex name(R"(\b([a-z0-9_]+_kernel)\s*\()");
    for (std::size_t at = text.find("__global__"); at != std::string::npos; at = text.find("__global__", at + 1)) {
      std::smatch match;
      const std::string head = text.substr(at, text.find('{', at) - at);
      INFO(entry.path() << ": " << head);
      REQUIRE(std::regex_search(head, match, name));
      kernels.insert(match[1].str());
    }
  }
  return kernels;
}

/// Of convolutions, which the host computes slowly, those with few products.
bool is_quick(const KernelCase& tried) {
  return !tried.has_candidates || tried.name.find("3to64") != std::string::npos ||
         tried.name.find("1x1") != std::string::npos;
}

}  // namespace

TEST_CASE("every kernel is timed by a case") {
  const std::set<std::string> kernels = kernels_of_sources();
  REQUIRE(kernels.size() >= 40);
  std::set<std::string> timed;
  for (const KernelCase& tried : kernel_cases()) timed.insert(tried.kernels.begin(), tried.kernels.end());
  CHECK(timed == kernels);
}

TEST_CASE("cases that are timed have names that differ and can stand in a command and a file's name") {
  std::set<std::string> names;
  for (const KernelCase& tried : kernel_cases()) {
    CHECK(std::regex_match(tried.name, std::regex("[a-z0-9_.]+")));
    CHECK(names.insert(tried.name).second);
  }
}

TEST_CASE("cases that are timed start the kernels they name, and write all of their results from what they are given") {
  const std::unique_ptr<Device> device = make_emulated_device();
  const std::map<const void*, std::string> names = function_names();
  LibraryOfCases library;
  for (const KernelCase& tried : kernel_cases()) {
    if (!is_quick(tried)) continue;
    INFO(tried.name);
    const SizedCase sized = tried.sized(tried.least_units, library);
    CHECK(sized.bytes > 0);
    CHECK(tried.sized(2 * tried.least_units, library).bytes >= sized.bytes);
    std::set<std::string> started;
    Contents first;
    {
      const host::LaunchedKernels launched;
      first = run_case(*device, sized, std::byte{0xFF});
      for (const auto kernel : launched.kernels()) {
        const auto named = names.find(reinterpret_cast<const void*>(kernel));
        REQUIRE(named != names.end());
        started.insert(kernel_of(named->second));
      }
    }
    CHECK(started == std::set<std::string>(tried.kernels.begin(), tried.kernels.end()));
    const Contents second = run_case(*device, sized, std::byte{0x5A});
    for (std::size_t i = 0; i < sized.operands.size(); ++i) check_operand(sized.operands[i], i, first, second);
  }
}

}  // namespace trainer::cuda
