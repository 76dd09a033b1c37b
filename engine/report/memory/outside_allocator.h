#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/device/device.h"
#include "engine/report/text/style.h"

namespace trainer {

std::int64_t sum_of(const std::vector<NamedBytes>& parts);

/// "482.00 MiB (CUDA context 400.00 MiB, library handles 82.00 MiB)"; of one part "482.00 MiB (CUDA context)".
std::string named_bytes_text(const std::vector<NamedBytes>& parts);

/// The other processes on a device of `device_total` bytes: pid, name, bytes and share of the device, and their sum.
std::string process_table(const std::vector<DeviceProcess>& processes, std::int64_t device_total, const Style& style);

}  // namespace trainer
