#include "datasets/tar/tar_index.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "datasets/file_scan.h"
#include "datasets/tar/archive_library.h"
#include "engine/errors.h"

namespace trainer {
namespace {

/// Images and labels are smaller.
constexpr std::uint64_t largest_member = std::uint64_t{1} << 30;

class ArchiveFile {
 public:
  explicit ArchiveFile(const std::string& path) : number_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (number_ < 0) throw DataError(fmt::format("cannot open '{}': {}", path, std::strerror(errno)));
  }
  ~ArchiveFile() { close(number_); }
  ArchiveFile(const ArchiveFile&) = delete;
  ArchiveFile& operator=(const ArchiveFile&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

struct FreeArchive {
  void operator()(archive* each) const noexcept { archive_library().read_free(each); }
};

/// How the programs that compress archives are called, by what such files begin with.
struct Compression {
  std::string_view begin, program;
};
constexpr std::array<Compression, 4> compressions = {{{"\x1f\x8b", "gunzip"},
                                                      {"\x28\xb5\x2f\xfd", "unzstd"},
                                                      {"\xfd"
                                                       "7zXZ",
                                                       "unxz"},
                                                      {"BZh", "bunzip2"}}};

void refuse_compressed(const std::string& path) {
  std::vector<std::byte> begin;
  read_file(path, begin, 8);
  const std::string_view text(reinterpret_cast<const char*>(begin.data()), begin.size());
  for (const Compression& each : compressions)
    if (text.starts_with(each.begin))
      throw DataError(
          fmt::format("'{}' is compressed, so that its members cannot be read where they lie; unpack it: {} "
                      "--keep '{}'",
                      path, each.program, path));
}

std::uint64_t size_of_file(const ArchiveFile& file, const std::string& path) {
  struct stat facts {};
  if (fstat(file.number(), &facts) != 0)
    throw DataError(fmt::format("cannot read the size of '{}': {}", path, std::strerror(errno)));
  return static_cast<std::uint64_t>(facts.st_size);
}

}  // namespace

TarIndex read_tar_index(const std::string& path) {
  refuse_compressed(path);
  const ArchiveFile file(path);
  const std::uint64_t file_bytes = size_of_file(file, path);
  const ArchiveLibrary& library = archive_library();
  const std::unique_ptr<archive, FreeArchive> tar(library.read_new());
  if (!tar) throw std::bad_alloc();
  constexpr std::size_t block_bytes = 10240;
  if (library.support_format_tar(tar.get()) != ARCHIVE_OK ||
      library.open_fd(tar.get(), file.number(), block_bytes) != ARCHIVE_OK)
    throw DataError(fmt::format("'{}' cannot be read as a tar archive: {}", path, library.error_string(tar.get())));
  TarIndex index;
  for (;;) {
    archive_entry* entry = nullptr;
    const int status = library.next_header(tar.get(), &entry);
    if (status == ARCHIVE_EOF) break;
    if (status == ARCHIVE_FATAL || status == ARCHIVE_RETRY) {
      const char* const why = library.error_string(tar.get());
      const std::string reason = why == nullptr ? "unknown" : why;
      const std::int64_t offset = library.filter_bytes(tar.get(), 0);
      if (index.members.empty())
        throw DataError(fmt::format("'{}' is no tar archive, or damaged at offset {}: {}", path, offset, reason));
      index.damage = fmt::format("'{}' is damaged at offset {}, behind its member '{}': {}", path, offset,
                                 index.members.back().name, reason);
      break;
    }
    const bool is_link = library.entry_hardlink(entry) != nullptr || library.entry_symlink(entry) != nullptr;
    if (library.entry_filetype(entry) != AE_IFREG || is_link) {
      index.num_others += library.entry_filetype(entry) == AE_IFDIR && !is_link ? 0 : 1;
      continue;
    }
    const char* const name = library.entry_pathname(entry);
    TarMember member{name == nullptr ? "" : name,
                     {static_cast<std::uint64_t>(library.filter_bytes(tar.get(), 0)),
                      static_cast<std::uint64_t>(std::max<std::int64_t>(library.entry_size(entry), 0))}};
    if (library.entry_sparse_count(entry) > 0)
      throw DataError(fmt::format("'{}': member '{}' is stored with holes, which is not read", path, member.name));
    const auto [offset, num_bytes] = member.place;
    if (offset > file_bytes || num_bytes > file_bytes - offset) {
      index.damage = fmt::format("'{}' ends within its member '{}', at offset {}", path, member.name, offset);
      if (index.members.empty()) throw DataError(index.damage);
      break;
    }
    index.members.push_back(std::move(member));
  }
  return index;
}

void read_tar_member(const std::string& path, std::string_view name, const TarPlace& place,
                     std::vector<std::byte>& memory, std::uint64_t most_bytes) {
  const std::uint64_t wanted = std::min(place.num_bytes, most_bytes);
  if (wanted > largest_member)
    throw DataError(fmt::format("'{}': member '{}' has {} bytes; at most {} are read", path, name, place.num_bytes,
                                largest_member));
  const ArchiveFile file(path);
  memory.reserve(static_cast<std::size_t>(wanted));  // and no more: a plan counts it
  memory.resize(static_cast<std::size_t>(wanted));
  for (std::uint64_t done = 0; done < wanted;) {
    const ssize_t got = pread(file.number(), memory.data() + done, static_cast<std::size_t>(wanted - done),
                              static_cast<off_t>(place.offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw DataError(fmt::format("cannot read '{}': {}", path, std::strerror(errno)));
    if (got == 0)
      throw DataError(fmt::format("'{}' ends at offset {}, within its member '{}'", path, place.offset + done, name));
    done += static_cast<std::uint64_t>(got);
  }
}

}  // namespace trainer
