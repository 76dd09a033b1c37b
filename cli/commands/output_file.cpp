#include "cli/commands/output_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "engine/errors.h"

namespace trainer {

void refuse_existing(const std::string& path, bool overwrite) {
  std::error_code ignored;
  if (!overwrite && !path.empty() && std::filesystem::exists(path, ignored))
    throw DataError(fmt::format("'{}' exists; name another file, or replace it with --overwrite", path));
}

void refuse_own_input(const std::string& output, const std::vector<std::string>& inputs) {
  std::error_code ignored;
  for (const std::string& input : inputs)
    if (!output.empty() && std::filesystem::equivalent(output, input, ignored))
      throw DataError(fmt::format("'{}' is read by this command; name another file to write", output));
}

}  // namespace trainer
