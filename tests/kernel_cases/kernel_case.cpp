#include "tests/kernel_cases/kernel_case.h"

#include <utility>

namespace trainer::cuda {

std::size_t SizedCase::add(CaseOperand operand) {
  operands.push_back(std::move(operand));
  return operands.size() - 1;
}

std::size_t SizedCase::input(DType type, std::int64_t count, double low, double high) {
  return add({.role = OperandRole::input, .type = type, .count = count, .low = low, .high = high});
}

std::size_t SizedCase::modified(DType type, std::int64_t count, double low, double high) {
  return add({.role = OperandRole::modified, .type = type, .count = count, .low = low, .high = high});
}

std::size_t SizedCase::output(DType type, std::int64_t count) {
  return add({.role = OperandRole::output, .type = type, .count = count});
}

std::size_t SizedCase::scratch(std::int64_t num_bytes) {
  return add({.role = OperandRole::scratch, .type = DType::u8, .count = num_bytes});
}

std::size_t SizedCase::holding(OperandRole role, DType type, std::span<const std::byte> content) {
  return add({.role = role,
              .type = type,
              .count = static_cast<std::int64_t>(content.size() / size_of(type)),
              .content = {content.begin(), content.end()}});
}

std::string case_name(const std::string& launcher, DType type, const std::string& variant) {
  const std::string name = launcher + "." + std::string(name_of(type));
  return variant.empty() ? name : name + "." + variant;
}

std::vector<KernelCase> kernel_cases() {
  KernelCases cases;
  add_elementwise_cases(cases);
  add_normalization_cases(cases);
  add_groupnorm_cases(cases);
  add_attention_cases(cases);
  add_pool_cases(cases);
  add_channel_cases(cases);
  add_embedding_cases(cases);
  add_layout_cases(cases);
  add_loss_cases(cases);
  add_update_cases(cases);
  add_matmul_cases(cases);
  add_convolution_cases(cases);
  return cases;
}

}  // namespace trainer::cuda
