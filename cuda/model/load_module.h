#pragma once

#include <string>

#include "cuda/device/module.h"

namespace trainer::cuda {

/// The module of Note [The CUDA module], loaded once; null where this build or machine cannot load it, and `problem`
/// then says why and what to do.
const Module* load_module(std::string& problem);

}  // namespace trainer::cuda
