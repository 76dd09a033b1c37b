#include "tests/op_cases/op_case.h"

// Cases that are being written: each line moves to its own file.

namespace trainer {

std::vector<OpCase> offload_cases() { return {}; }
std::vector<OpCase> fetch_cases() { return {}; }

}  // namespace trainer
