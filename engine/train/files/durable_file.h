#pragma once

#include <string>
#include <string_view>

namespace trainer {

/// Writes a file and flushes it to the disk. Throws DataError with the path and the system's reason.
void write_file_durably(const std::string& path, std::string_view text);

/// The same for a file that is new: false, and nothing done, where the path exists.
bool write_new_file_durably(const std::string& path, std::string_view text);

/// Adds text to the end of a file, which is made where it is missing, and flushes it to the disk. Throws DataError.
void append_durably(const std::string& path, std::string_view text);

/// Makes a directory and those above it that are missing, and flushes the entries made. Throws DataError.
void make_directories_durably(const std::string& path);

/// Flushes a directory's entries (names made, renamed and removed in it) to the disk.
void sync_directory(const std::string& path);

/// Puts `from` in the place of `to`, which may exist: whoever looks sees the old or the new, whole. Directories are
/// exchanged; what was at `to` is removed. The parent directory is flushed. On a file system that cannot exchange there
/// is a moment in which nothing is at `to`: recover_replaced brings back what was.
void replace_durably(const std::string& from, const std::string& to);

/// Where a process was killed within replace_durably, puts back what was aside in `directory`, or removes it where
/// something has taken its place.
void recover_replaced(const std::string& directory);

/// Makes `link` a symbolic link to `target`, in one step where it exists already. On the way there is a hidden file
/// that ends with .tmp beside it. Does nothing on a file system without such links.
void point_link(const std::string& link, const std::string& target);

/// The file's whole text. Throws DataError where it cannot be read or has more than `max_bytes`.
std::string read_text_file(const std::string& path, std::size_t max_bytes);

}  // namespace trainer
