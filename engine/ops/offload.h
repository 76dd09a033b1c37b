#pragma once

#include <cstdint>

#include "engine/shape.h"

namespace trainer {

struct Op;

// Note [Offload]
// ~~~~~~~~~~~~~~
// An activation that is read again only late can wait in page-locked host memory. Four ops carry it there and back,
// each copy beside the kernels of other layers:
//
//   offload start   the copy of x to its slot begins, once what is queued before it is done
//   offload finish  the device's kernels wait for that copy; x is read until here, and then released
//   fetch start     the copy from the slot into y begins, once what is queued before it is done
//   fetch finish    the device's kernels wait for that copy; y may be read from here on
//
// A slot is a piece of host memory that one value of a routine has for itself. engine/program/offload.h places the ops.

struct OffloadAttributes {
  std::int32_t slot = 0;
  bool finish = false;  ///< the second half
  friend bool operator==(const OffloadAttributes&, const OffloadAttributes&) = default;
};

/// inputs: x; no outputs. See Note [Offload].
Op offload_op(const TensorType& x, const OffloadAttributes& attributes);
/// Start: no inputs; outputs: y, which is not to be read before fetch's finish. Finish: inputs: y [modified: now it
/// holds the slot's bytes]; no outputs.
Op fetch_op(const TensorType& y, const OffloadAttributes& attributes);

}  // namespace trainer
