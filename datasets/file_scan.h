#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace trainer {

/// Calls `look(i)` for 0 … count − 1, from several threads, each by what `make_look` gives it for itself alone, with
/// the memory that looking takes. Rethrows what the call of the least number threw, whatever the others did.
using Look = std::function<void(std::int64_t)>;
void scan_in_parallel(std::int64_t count, const std::function<Look()>& make_look);

/// A path for the system, made without an allocation. DataError where it is longer than the system takes.
class FilePath {
 public:
  FilePath(const std::string& path) : FilePath("", path) {}  // NOLINT(google-explicit-constructor): a path as it is
  /// Below `root`, unless it is absolute or `root` empty.
  FilePath(std::string_view root, std::string_view path);

  const char* c_str() const { return text_.data(); }

 private:
  std::array<char, 4096> text_;
};

/// Reads a whole file, or its first `most_bytes`, into `memory`, which keeps its capacity. Returns the size of the
/// file. DataError where it cannot be read, or is no regular file.
std::uint64_t read_file(const FilePath& file, std::vector<std::byte>& memory, std::uint64_t most_bytes = UINT64_MAX);

}  // namespace trainer
