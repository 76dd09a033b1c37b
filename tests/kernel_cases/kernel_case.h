#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cuda/launch/stream.h"
#include "cuda/library/library.h"
#include "engine/dtype.h"

namespace trainer::cuda {

enum class OperandRole : std::uint8_t {
  input,     ///< read
  modified,  ///< read and written
  output,    ///< written, every byte of it
  scratch,
};

/// One array that a launch is given.
struct CaseOperand {
  OperandRole role{};
  DType type = DType::f32;
  std::int64_t count = 0;
  double low = -1, high = 1;            ///< numbers are uniform in [low, high); integers those in it
  std::vector<std::byte> content = {};  ///< instead of numbers
  std::int64_t num_bytes() const { return count * static_cast<std::int64_t>(size_of(type)); }
};

/// Where a case's operands stand, aligned to 256 bytes each.
class OperandAddresses {
 public:
  explicit OperandAddresses(std::span<void* const> addresses) : addresses_(addresses) {}
  void* operator[](std::size_t operand) const { return addresses_[operand]; }
  template <typename T>
  T* as(std::size_t operand) const {
    return static_cast<T*>(addresses_[operand]);
  }

 private:
  std::span<void* const> addresses_;
};

/// A launch at one size, and what it needs.
struct SizedCase {
  std::string shape;       ///< "262144x64"
  std::int64_t bytes = 0;  ///< that it moves, as its header says
  std::vector<CaseOperand> operands = {};
  std::function<void(const OperandAddresses&, Stream)> launch = {};

  // Each adds an operand and returns its number.
  std::size_t input(DType type, std::int64_t count, double low = -1, double high = 1);
  std::size_t modified(DType type, std::int64_t count, double low = -1, double high = 1);
  std::size_t output(DType type, std::int64_t count);
  std::size_t scratch(std::int64_t num_bytes);
  /// An input, or what is modified, of these bytes.
  std::size_t holding(OperandRole role, DType type, std::span<const std::byte> content);

 private:
  std::size_t add(CaseOperand operand);
};

/// A launcher of cuda/kernels/ or a call of Library, as it is timed on a GPU and, at its least size, tried on the host.
struct KernelCase {
  std::string name;                       ///< "batchnorm2d_forward.bf16.32x32x64": letters, digits, points, _
  std::vector<std::string> kernels = {};  ///< the __global__ functions that it starts, all of them
  std::int64_t units = 1;                 ///< of a realistic size, such as its images; more units are more bytes
  std::int64_t least_units = 1;           ///< that start the same kernels
  bool grows = true;                      ///< false: its own size is what it is about, not its rate
  bool moves_memory = true;               ///< false: most of its time goes into products
  bool has_candidates = false;            ///< a convolution, which several engines of cuDNN can compute
  std::function<SizedCase(std::int64_t units, Library& library)> sized = {};
};

/// All of them, always in the same order, by names that differ.
std::vector<KernelCase> kernel_cases();

using KernelCases = std::vector<KernelCase>;
void add_elementwise_cases(KernelCases& cases);
void add_normalization_cases(KernelCases& cases);
void add_groupnorm_cases(KernelCases& cases);
void add_attention_cases(KernelCases& cases);
void add_pool_cases(KernelCases& cases);
void add_channel_cases(KernelCases& cases);
void add_embedding_cases(KernelCases& cases);
void add_layout_cases(KernelCases& cases);
void add_loss_cases(KernelCases& cases);
void add_update_cases(KernelCases& cases);
void add_matmul_cases(KernelCases& cases);
void add_convolution_cases(KernelCases& cases);

/// Types that kernels are made for.
inline constexpr DType case_types[] = {DType::f32, DType::f16, DType::bf16};
/// "NAME.bf16.32x32x64"
std::string case_name(const std::string& launcher, DType type, const std::string& variant);

}  // namespace trainer::cuda
