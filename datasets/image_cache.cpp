#include "datasets/image_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <utility>

#include "engine/bytes.h"
#include "engine/errors.h"
#include "engine/files/cache_folder.h"

namespace trainer {
namespace {

constexpr std::int64_t most_cache_bytes = std::int64_t{1} << 60;

enum class EntryState : std::uint8_t { unknown, absent, filling, listed, ready };

/// What is known of an entry, in one word that threads exchange.
struct EntryWord {
  EntryState state = EntryState::unknown;
  Pair size{0, 0};

  static EntryWord of(std::uint64_t word) {
    return {static_cast<EntryState>(word & 7),
            {static_cast<std::int64_t>(word >> 3 & 0x3FFFFFFF), static_cast<std::int64_t>(word >> 33)}};
  }
  std::uint64_t word() const {
    return static_cast<std::uint64_t>(state) | static_cast<std::uint64_t>(size[0]) << 3 |
           static_cast<std::uint64_t>(size[1]) << 33;
  }
};

class EntryWords {
 public:
  explicit EntryWords(std::int64_t count) : words_(static_cast<std::size_t>(count)) {}

  EntryWord load(std::int64_t entry) const {
    return EntryWord::of(words_[static_cast<std::size_t>(entry)].load(std::memory_order_acquire));
  }
  void store(std::int64_t entry, const EntryWord& word) {
    words_[static_cast<std::size_t>(entry)].store(word.word(), std::memory_order_release);
  }
  /// Whether this thread is the one that fills an entry that was never there.
  bool claim(std::int64_t entry) {
    std::uint64_t expected = EntryWord{}.word();
    return words_[static_cast<std::size_t>(entry)].compare_exchange_strong(
        expected, EntryWord{EntryState::filling, {0, 0}}.word(), std::memory_order_acq_rel);
  }

 private:
  std::vector<std::atomic<std::uint64_t>> words_;
};

Region all_or(const Region& wanted, Pair size) { return wanted.height == 0 ? Region{0, 0, size[0], size[1]} : wanted; }

class MemoryCache final : public ImageCache {
 public:
  explicit MemoryCache(const CacheShape& shape)
      : ImageCache(shape), words_(shape.num_entries), num_bytes_(static_cast<std::size_t>(shape.num_bytes())) {
    // Pages that are not written to are not counted.
    constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* const memory = mmap(nullptr, num_bytes_, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (memory == MAP_FAILED) throw HostOutOfMemory("data.cache: ram", shape.num_bytes(), /*depends_on_batches=*/false);
    slots_ = static_cast<std::uint8_t*>(memory);
  }
  ~MemoryCache() override { munmap(slots_, num_bytes_); }

  std::optional<Pair> find(std::int64_t entry) override {
    const EntryWord word = words_.load(entry);
    if (word.state != EntryState::ready) return std::nullopt;
    return word.size;
  }

  std::optional<Found> read(std::int64_t entry, Pair size, const Region& /*wanted*/, Image& lent, Image& /*image*/,
                            Image* mask) override {
    const EntryWord word = words_.load(entry);
    if (word.state != EntryState::ready || word.size != size) return std::nullopt;
    lent.borrow(slot_of(entry), word.size[0], word.size[1], shape_.channels);
    if (shape_.has_masks) {
      mask->reshape(word.size[0], word.size[1], 1);
      std::memcpy(mask->row(0), lent.row(0) + lent.num_bytes(), mask->pixels().size());
    }
    return Found{&lent, {}};
  }

  void store(std::int64_t entry, const Image& image, const Image* mask) override {
    check_fits(image);
    if (!words_.claim(entry)) return;
    std::uint8_t* const slot = slot_of(entry);
    std::memcpy(slot, image.pixels().data(), image.pixels().size());
    if (shape_.has_masks) std::memcpy(slot + image.num_bytes(), mask->pixels().data(), mask->pixels().size());
    words_.store(entry, {EntryState::ready, image.size()});
  }

 private:
  std::uint8_t* slot_of(std::int64_t entry) const { return slots_ + entry * shape_.entry_bytes(); }

  EntryWords words_;
  std::size_t num_bytes_;
  std::uint8_t* slots_;
};

std::uint32_t checksum(std::uint32_t before, const void* bytes, std::size_t num_bytes) {
  return static_cast<std::uint32_t>(crc32_z(before, static_cast<const Bytef*>(bytes), num_bytes));
}

/// What a file of a cache begins with.
struct CacheHeader {
  std::array<char, 8> magic = {'t', 'r', 'n', 'i', 'm', 'g', '0', '1'};
  std::uint64_t key = 0, num_entries = 0, most_pixels = 0;
  std::uint32_t channels = 0, has_masks = 0;

  friend bool operator==(const CacheHeader&, const CacheHeader&) = default;
};

/// A line of the index.
struct CacheLine {
  std::uint32_t height = 0, width = 0;
  std::uint32_t crc32 = 0;       ///< of the slot's pixels, mask included
  std::uint32_t line_crc32 = 0;  ///< of the entry's number and what stands before

  std::uint32_t own_crc32(std::int64_t entry) const {
    const std::array<std::uint64_t, 2> numbers = {static_cast<std::uint64_t>(entry),
                                                  std::uint64_t{height} << 32 | width};
    return checksum(checksum(0, numbers.data(), sizeof(numbers)), &crc32, sizeof(crc32));
  }
};

constexpr std::int64_t header_bytes = 4096;

class OpenFile {
 public:
  OpenFile(std::string path, int flags) : path_(std::move(path)), descriptor_(::open(path_.c_str(), flags)) {}
  /// Takes over what is open.
  OpenFile(int descriptor, std::string path) : path_(std::move(path)), descriptor_(descriptor) {}
  ~OpenFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  OpenFile(OpenFile&& other) noexcept
      : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}
  OpenFile& operator=(OpenFile&&) = delete;

  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }

  /// False where not all of them are there, or they cannot be read.
  bool read(std::int64_t offset, void* to, std::int64_t num_bytes) const {
    auto* at = static_cast<char*>(to);
    while (num_bytes > 0) {
      const ssize_t count = pread(descriptor_, at, static_cast<std::size_t>(num_bytes), offset);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return false;
      at += count;
      offset += count;
      num_bytes -= count;
    }
    return true;
  }
  /// DataError where they cannot be written.
  void write(std::int64_t offset, const void* from, std::int64_t num_bytes) const {
    const auto* at = static_cast<const char*>(from);
    while (num_bytes > 0) {
      const ssize_t count = pwrite(descriptor_, at, static_cast<std::size_t>(num_bytes), offset);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) throw error();
      at += count;
      offset += count;
      num_bytes -= count;
    }
  }
  DataError error() const {
    return DataError(fmt::format("cannot write to the cache of images '{}': {}; data.cache_folder names another place",
                                 path_, std::strerror(errno)));
  }

 private:
  std::string path_;
  int descriptor_;
};

class DiskCache final : public ImageCache {
 public:
  DiskCache(const CacheShape& shape, OpenFile file)
      : ImageCache(shape), words_(shape.num_entries), file_(std::move(file)) {}

  static std::int64_t slots_begin(const CacheShape& shape) {
    const std::int64_t index_bytes = shape.num_entries * static_cast<std::int64_t>(sizeof(CacheLine));
    return header_bytes + (index_bytes + header_bytes - 1) / header_bytes * header_bytes;
  }

  std::optional<Pair> find(std::int64_t entry) override {
    EntryWord word = words_.load(entry);
    if (word.state == EntryState::unknown) {
      const std::optional<CacheLine> line = read_line(entry);
      word = {line ? EntryState::listed : EntryState::absent, {0, 0}};
      if (line) word.size = {line->height, line->width};
      words_.store(entry, word);
    }
    if (word.state == EntryState::absent) return std::nullopt;
    return word.size;
  }

  std::optional<Found> read(std::int64_t entry, Pair size, const Region& wanted, Image& /*lent*/, Image& image,
                            Image* mask) override {
    const EntryWord word = words_.load(entry);
    if (word.state == EntryState::absent || word.size != size) return std::nullopt;
    // What was not read before is read whole, and compared.
    const bool is_new = word.state == EntryState::listed;
    Region region = is_new ? Region{0, 0, word.size[0], word.size[1]} : all_or(wanted, word.size);
    region.left = 0;  // rows lie together
    region.width = word.size[1];
    const std::int64_t row_bytes = word.size[1] * shape_.channels, begin = slot_of(entry);
    image.reshape(region.height, region.width, shape_.channels);
    bool is_there = file_.read(begin + region.top * row_bytes, image.pixels().data(), image.num_bytes());
    if (is_there && shape_.has_masks) {
      mask->reshape(word.size[0], word.size[1], 1);
      is_there = file_.read(begin + word.size[0] * row_bytes, mask->pixels().data(), mask->num_bytes());
    }
    if (is_there && is_new) {
      const std::optional<CacheLine> line = read_line(entry);
      is_there = line && Pair{line->height, line->width} == word.size && line->crc32 == crc32_of(image, mask);
    }
    if (is_there && is_new) words_.store(entry, {EntryState::ready, word.size});
    if (is_there) return Found{&image, {region.top, region.left}};
    words_.store(entry, {EntryState::absent, {0, 0}});
    return std::nullopt;
  }

  void store(std::int64_t entry, const Image& image, const Image* mask) override {
    check_fits(image);
    if (has_failed_.load(std::memory_order_relaxed)) return;
    try {
      write(entry, image, mask);
    } catch (const DataError& error) {
      const std::lock_guard lock(mutex_);
      if (!has_failed_.exchange(true)) failure_ = error.what();
    }
  }
  std::string failure() const override {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

 private:
  void write(std::int64_t entry, const Image& image, const Image* mask) {
    file_.write(slot_of(entry), image.pixels().data(), image.num_bytes());
    if (shape_.has_masks) file_.write(slot_of(entry) + image.num_bytes(), mask->pixels().data(), mask->num_bytes());
    CacheLine line{static_cast<std::uint32_t>(image.height()), static_cast<std::uint32_t>(image.width()),
                   crc32_of(image, mask), 0};
    line.line_crc32 = line.own_crc32(entry);
    file_.write(place_of_line(entry), &line, sizeof(line));
    words_.store(entry, {EntryState::ready, image.size()});
  }

  std::int64_t slot_of(std::int64_t entry) const { return slots_begin(shape_) + entry * shape_.entry_bytes(); }
  static std::int64_t place_of_line(std::int64_t entry) {
    return header_bytes + entry * static_cast<std::int64_t>(sizeof(CacheLine));
  }

  std::uint32_t crc32_of(const Image& image, const Image* mask) const {
    const std::uint32_t of_image = checksum(0, image.pixels().data(), image.pixels().size());
    return shape_.has_masks ? checksum(of_image, mask->pixels().data(), mask->pixels().size()) : of_image;
  }

  std::optional<CacheLine> read_line(std::int64_t entry) const {
    CacheLine line;
    if (!file_.read(place_of_line(entry), &line, sizeof(line))) return std::nullopt;
    const bool is_whole = line.height > 0 && line.width > 0 && line.line_crc32 == line.own_crc32(entry);
    if (!is_whole || static_cast<std::int64_t>(line.height) > shape_.most_pixels / line.width) return std::nullopt;
    return line;
  }

  EntryWords words_;
  OpenFile file_;
  std::atomic<bool> has_failed_ = false;
  mutable std::mutex mutex_;
  std::string failure_;  // guarded by mutex_
};

CacheHeader header_of(const CacheShape& shape, std::uint64_t key) {
  CacheHeader header;
  header.key = key;
  header.num_entries = static_cast<std::uint64_t>(shape.num_entries);
  header.most_pixels = static_cast<std::uint64_t>(shape.most_pixels);
  header.channels = static_cast<std::uint32_t>(shape.channels);
  header.has_masks = shape.has_masks ? 1 : 0;
  return header;
}

/// Whether an open file is a cache of that shape and key.
bool is_cache(const OpenFile& file, const CacheHeader& wanted, std::int64_t num_bytes) {
  struct stat status {};
  if (fstat(file.descriptor(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_size != num_bytes) return false;
  CacheHeader header;
  return file.read(0, &header, sizeof(header)) && header == wanted;
}

/// Takes a name away, where it is still there.
struct RemovedFile {
  std::string path;
  explicit RemovedFile(std::string its_path) : path(std::move(its_path)) {}
  ~RemovedFile() { ::unlink(path.c_str()); }
  RemovedFile(const RemovedFile&) = delete;
  RemovedFile& operator=(const RemovedFile&) = delete;
};

void check_space(const std::string& folder, std::int64_t needed_bytes) {
  struct statvfs space {};
  if (statvfs(folder.c_str(), &space) != 0) return;
  const auto left = static_cast<std::int64_t>(
      std::min<unsigned long long>(static_cast<unsigned long long>(space.f_bavail) * space.f_frsize,
                                   static_cast<unsigned long long>(most_cache_bytes)));
  if (needed_bytes <= left) return;
  throw DataError(
      fmt::format("data.cache: disk takes about {} in '{}', which has {} left: data.cache_folder names "
                  "another place, and a resize that comes first makes it smaller",
                  format_bytes(needed_bytes), folder, format_bytes(left)));
}

}  // namespace

std::int64_t CacheShape::num_bytes() const {
  std::int64_t product = 0;
  return __builtin_mul_overflow(num_entries, entry_bytes(), &product) ? most_cache_bytes
                                                                      : std::min(product, most_cache_bytes);
}

std::int64_t ImageCache::held_bytes(const CacheShape& shape, bool on_disk) {
  const std::int64_t of_words = shape.num_entries * static_cast<std::int64_t>(sizeof(std::uint64_t));
  return on_disk ? of_words : std::min(most_cache_bytes, of_words + shape.num_bytes());
}

void ImageCache::check_fits(const Image& image) const {
  if (image.num_bytes() <= shape_.most_pixels * shape_.channels && image.channels() == shape_.channels) return;
  throw DataError(fmt::format("an image became {}×{}×{}, larger than its header said: it was changed while it was read",
                              image.height(), image.width(), image.channels()));
}

std::unique_ptr<ImageCache> make_memory_cache(const CacheShape& shape) { return std::make_unique<MemoryCache>(shape); }

std::unique_ptr<ImageCache> make_disk_cache(const CacheShape& shape, const std::string& folder, std::uint64_t key,
                                            std::int64_t needed_bytes) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw DataError(fmt::format("cannot make the folder '{}' of data.cache: {}; data.cache_folder names another place",
                                folder, error.message()));
  const std::string path = (std::filesystem::path(folder) / fmt::format("{:016x}.images", key)).string();
  const std::int64_t num_bytes = DiskCache::slots_begin(shape) + shape.num_bytes();
  const CacheHeader header = header_of(shape, key);
  constexpr int flags = O_RDWR | O_CLOEXEC;
  if (OpenFile existing(path, flags); existing.is_open() && is_cache(existing, header, num_bytes))
    return std::make_unique<DiskCache>(shape, std::move(existing));
  check_space(folder, needed_bytes);
  // Made under a name of its own, so that nobody meets a part of it.
  std::string temporary = path + ".XXXXXX";
  OpenFile made(mkostemp(temporary.data(), O_CLOEXEC), temporary);
  if (!made.is_open()) throw made.error();
  const RemovedFile removed{temporary};
  if (ftruncate(made.descriptor(), num_bytes) != 0 || fchmod(made.descriptor(), 0644) != 0) throw made.error();
  made.write(0, &header, sizeof(header));
  if (::link(temporary.c_str(), path.c_str()) == 0) return std::make_unique<DiskCache>(shape, std::move(made));
  // Another process was first, or what is there is no cache, or links cannot be made there.
  if (OpenFile existing(path, flags); existing.is_open() && is_cache(existing, header, num_bytes))
    return std::make_unique<DiskCache>(shape, std::move(existing));
  if (::rename(temporary.c_str(), path.c_str()) != 0) throw made.error();
  return std::make_unique<DiskCache>(shape, std::move(made));
}

std::string image_cache_folder(const std::string& configured) {
  if (!configured.empty()) return configured;
  const std::optional<std::string> folder = cache_folder();
  if (!folder) throw DataError("there is no place for data.cache: disk; set data.cache_folder, HOME or XDG_CACHE_HOME");
  return (std::filesystem::path(*folder) / "images").string();
}

}  // namespace trainer
