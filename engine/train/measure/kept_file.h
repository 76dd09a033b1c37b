#pragma once

#include <string>
#include <string_view>

namespace trainer {

/// Where a file of that name is kept that says what was measured on this machine: (XDG_CACHE_HOME or
/// ~/.cache)/trainer/. Throws DataError where neither XDG_CACHE_HOME nor HOME is set.
std::string kept_path(const std::string& file_name);

/// Makes the folder and throws DataError where nothing can be written there: better before than after measuring.
void require_writable(const std::string& path);

/// Writes the text in the place of what is at `path`: whoever reads sees all of the old or all of the new one. Throws
/// DataError.
void write_kept_file(const std::string& path, std::string_view text);

}  // namespace trainer
