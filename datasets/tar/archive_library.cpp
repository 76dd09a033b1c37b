#include "datasets/tar/archive_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <string>

#include "engine/errors.h"

namespace trainer {
namespace {

constexpr const char* archive_library_file = "libarchive.so.13";

struct LoadedArchiveLibrary {
  ArchiveLibrary functions;
  std::string problem;  ///< empty: it was loaded
};

LoadedArchiveLibrary load_archive_library() {
  LoadedArchiveLibrary loaded;
  void* const library = dlopen(archive_library_file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    loaded.problem = dlerror();
    return loaded;
  }
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (function == nullptr) loaded.problem = fmt::format("{} has no {}", archive_library_file, name);
  };
  ArchiveLibrary& functions = loaded.functions;
  find(functions.read_new, "archive_read_new");
  find(functions.read_free, "archive_read_free");
  find(functions.support_format_tar, "archive_read_support_format_tar");
  find(functions.open_fd, "archive_read_open_fd");
  find(functions.next_header, "archive_read_next_header");
  find(functions.error_string, "archive_error_string");
  find(functions.filter_bytes, "archive_filter_bytes");
  find(functions.entry_hardlink, "archive_entry_hardlink");
  find(functions.entry_symlink, "archive_entry_symlink");
  find(functions.entry_filetype, "archive_entry_filetype");
  find(functions.entry_pathname, "archive_entry_pathname");
  find(functions.entry_size, "archive_entry_size");
  find(functions.entry_sparse_count, "archive_entry_sparse_count");
  return loaded;
}

}  // namespace

const ArchiveLibrary& archive_library() {
  static const LoadedArchiveLibrary loaded = load_archive_library();
  if (!loaded.problem.empty())
    throw DataError(fmt::format(
        "tar archives are read by libarchive (Debian's libarchive13), which cannot be loaded: {}", loaded.problem));
  return loaded.functions;
}

}  // namespace trainer
