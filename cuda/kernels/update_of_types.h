#pragma once

#include <span>

#include "cuda/kernels/optimizer_update.h"

namespace trainer::cuda {

/// sgd_update and adam_update of tensors of any UpdateTypes.
void update_of_types(const UpdateTypes& types, const UpdateOperands& operands, std::span<const UpdateTensor> tensors,
                     const SgdRule& rule, Stream stream);
void update_of_types(const UpdateTypes& types, const UpdateOperands& operands, std::span<const UpdateTensor> tensors,
                     const AdamRule& rule, Stream stream);

}  // namespace trainer::cuda
