#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trainer {

// Note [Members are read where they lie]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// A tar archive that is not compressed is an index and files: one pass over its headers, by libarchive, tells where the
// contents of each member lie, and they are read from there. Nothing is unpacked, and a name is nothing but a name:
// members that are links, devices or folders, and names that lead out of a folder, open no file.

/// Where a member's contents are in the archive.
struct TarPlace {
  std::uint64_t offset = 0, num_bytes = 0;
};

/// A file within an archive.
struct TarMember {
  std::string name;
  TarPlace place;
};

struct TarIndex {
  std::vector<TarMember> members;  ///< regular files, in the archive's order
  std::int64_t num_others = 0;     ///< links, devices and what else holds no contents of its own, but for folders
  std::string damage;              ///< why members behind these, if there are any, cannot be found; empty: all are
};

/// DataError with the archive's name for what is no tar archive, is compressed, holds a sparse file, or is damaged in
/// front of its first file.
TarIndex read_tar_index(const std::string& path);

/// Reads a member, or its first `most_bytes`, into `memory`, which keeps its capacity. DataError where the archive ends
/// before it does.
void read_tar_member(const std::string& path, std::string_view name, const TarPlace& place,
                     std::vector<std::byte>& memory, std::uint64_t most_bytes = UINT64_MAX);

}  // namespace trainer
