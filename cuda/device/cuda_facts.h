#pragma once

#include <string>

#include "cuda/device/module.h"

namespace trainer::cuda {

/// Module::facts.
CudaFacts gather_facts(bool tries_devices);

/// Of the device `index`, without starting it. Throws DeviceError where this machine has no GPU of that index.
CudaDeviceInfo describe_device(int index);

/// Kernel images in this build, as in CudaFacts.
std::string built_architectures();

/// "0000:3B:00.0": what NVML knows the device by.
std::string pci_bus_id(int index);

}  // namespace trainer::cuda
