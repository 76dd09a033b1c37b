#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/plan/machine_rates.h"

namespace trainer {

// Note [File of rates]
// ~~~~~~~~~~~~~~~~~~~~
// What `trainer bench` measured of a device is kept by kept_file.h as rates-<device name>.json; a CPU's name tells its
// threads. An object with the version of the format, the name of the device, the host's seconds for a step, and under
// "f32" and "half", for each way and kind, FLOPs and bytes a second and seconds a call. A file of another format or
// device, or of a trainer with other ops, is refused: it is measured anew in less than a minute. So is one with a
// figure that is not above 0 or that no machine has.

/// Where the rates of a device of that name are kept. Throws what kept_path throws.
std::string rates_path(std::string_view device_name);

/// As write_kept_file.
void write_rates(const std::string& path, std::string_view device_name, const MachineRates& rates);

/// Those of a file; nothing where there is none. Throws DataError, which tells to run `trainer bench`, where the file
/// is damaged or of something else.
std::optional<MachineRates> read_rates(const std::string& path, std::string_view device_name);

}  // namespace trainer
