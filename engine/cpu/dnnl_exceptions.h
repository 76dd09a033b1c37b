#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include "engine/cpu/dnnl_call.h"
#include "engine/errors.h"

namespace trainer {

/// Calls function(); the exceptions of oneDNN's C++ interface become those of require_dnnl.
template <typename Function>
auto translating_dnnl_exceptions(Function&& function) {
  try {
    return function();
  } catch (const dnnl::error& error) {
    require_dnnl(error.status, error.what());
    throw InternalError("internal error: oneDNN raised an error with status success");
  }
}

}  // namespace trainer
