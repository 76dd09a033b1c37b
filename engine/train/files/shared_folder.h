#pragma once

#include <string>

#include "engine/device/communicator.h"

namespace trainer {

/// Throws DataError on all ranks where one of them does not see in this folder what rank 0 writes there, or cannot
/// write there itself. The folder exists where rank 0 is. All ranks call it alike; nothing is left of it.
void require_shared_folder(const std::string& folder, Communicator& ranks);

}  // namespace trainer
