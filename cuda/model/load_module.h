#pragma once

#include <string>

#include "cuda/device/module.h"

namespace trainer::cuda {

/// The module of Note [The CUDA module], loaded once; null where this build or machine cannot load it, and `problem`
/// then says why and what to do. Looked for beside the program, then in ../lib/trainer/ from there; the environment
/// variable TRAINER_CUDA_MODULE names another file.
const Module* load_module(std::string& problem);

/// Whether this machine has an NVIDIA driver's library: what must be known before anything larger is loaded.
bool has_driver_library();

/// What the loader's message for the module at `path` means and what to do about it.
std::string explain_load_failure(const std::string& path, const std::string& loader_message);

}  // namespace trainer::cuda
