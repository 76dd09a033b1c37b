#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/device/device.h"

namespace trainer {

/// What a GPU's driver tells of it now, whoever uses it.
struct GpuUsage {
  int index = 0;  ///< as nvidia-smi counts
  std::string name{};
  std::int64_t used_bytes = 0, total_bytes = 0;
  std::optional<int> busy_percent{};  ///< of the last moments in which a kernel ran
  std::optional<int> celsius{};
  std::optional<double> watts{};
  std::vector<DeviceProcess> processes{};  ///< that compute on it, largest first; empty where the driver does not tell
};

}  // namespace trainer
