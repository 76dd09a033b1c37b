#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/kernel_cases/kernel_case.h"

namespace trainer::cuda {

/// What an operand holds before a launch, the same for the same seed: its content, or the first `most_elements` of its
/// numbers, after which they may be repeated.
std::vector<std::byte> operand_content(const CaseOperand& operand, std::uint64_t seed, std::int64_t most_elements);

}  // namespace trainer::cuda
