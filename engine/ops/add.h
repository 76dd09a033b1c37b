#pragma once

#include "engine/shape.h"

namespace trainer {

struct Op;

struct AddAttributes {
  bool relu = false;  ///< y = max(a + b, 0), set by the fusion pass
  friend bool operator==(const AddAttributes&, const AddAttributes&) = default;
};

/// inputs: a, b of one type; outputs: y = a + b, which may be stored over either.
Op add_op(const TensorType& a, const AddAttributes& attributes = {});

}  // namespace trainer
