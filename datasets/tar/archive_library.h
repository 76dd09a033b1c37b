#pragma once

#include <archive.h>
#include <archive_entry.h>

namespace trainer {

/// Functions of libarchive, by their names there. It is loaded when the first archive is read: with what it brings
/// (libxml2, ICU, codecs) it would take 1.3 MiB of every process.
struct ArchiveLibrary {
  decltype(&archive_read_new) read_new = nullptr;
  decltype(&archive_read_free) read_free = nullptr;
  decltype(&archive_read_support_format_tar) support_format_tar = nullptr;
  decltype(&archive_read_open_fd) open_fd = nullptr;
  decltype(&archive_read_next_header) next_header = nullptr;
  decltype(&archive_error_string) error_string = nullptr;
  decltype(&archive_filter_bytes) filter_bytes = nullptr;
  decltype(&archive_entry_hardlink) entry_hardlink = nullptr;
  decltype(&archive_entry_symlink) entry_symlink = nullptr;
  decltype(&archive_entry_filetype) entry_filetype = nullptr;
  decltype(&archive_entry_pathname) entry_pathname = nullptr;
  decltype(&archive_entry_size) entry_size = nullptr;
  decltype(&archive_entry_sparse_count) entry_sparse_count = nullptr;
};

/// Loaded once, and never closed. DataError where it cannot be.
const ArchiveLibrary& archive_library();

}  // namespace trainer
