#include "engine/train/measure/kept_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>

#include "engine/errors.h"
#include "engine/files/cache_folder.h"
#include "engine/train/files/durable_file.h"
#include "engine/trainer_command.h"

namespace trainer {

std::string kept_path(const std::string& file_name) {
  const std::optional<std::string> folder = cache_folder();
  if (!folder)
    throw DataError(fmt::format("there is no place for the speeds that '{}' measures: set HOME or XDG_CACHE_HOME",
                                trainer_command("bench")));
  return std::filesystem::path(*folder) / file_name;
}

void require_writable(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path();
  make_directories_durably(folder);
  if (access(folder.c_str(), W_OK) != 0)
    throw DataError(
        fmt::format("cannot write in {}: {}; XDG_CACHE_HOME=FOLDER names another place", folder, std::strerror(errno)));
}

void write_kept_file(const std::string& path, std::string_view text) {
  make_directories_durably(std::filesystem::path(path).parent_path());
  const std::string unfinished = fmt::format("{}.{}.tmp", path, getpid());
  try {
    write_file_durably(unfinished, text);
    replace_durably(unfinished, path);
  } catch (const DataError&) {
    std::error_code ignored;
    std::filesystem::remove(unfinished, ignored);
    throw;
  }
}

}  // namespace trainer
