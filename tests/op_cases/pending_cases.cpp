#include "tests/op_cases/op_case.h"

// Cases that are being written: each line moves to its own file.

namespace trainer {


}  // namespace trainer
