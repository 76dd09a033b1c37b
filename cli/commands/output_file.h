#pragma once

#include <string>
#include <vector>

namespace trainer {

/// Throws DataError where a file that is to be written exists and is not to be replaced: before the work, not after it.
/// Nothing for an empty path.
void refuse_existing(const std::string& path, bool overwrite);

/// Throws DataError where `output` is one of the files that are read, whatever it is called there.
void refuse_own_input(const std::string& output, const std::vector<std::string>& inputs);

}  // namespace trainer
