#include "datasets/image_files.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>

#include "datasets/file_scan.h"
#include "datasets/identity_hash.h"
#include "datasets/image/image_decoder.h"
#include "engine/errors.h"

namespace trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 8> image_extensions = {".jpg", ".jpeg", ".png", ".webp",
                                                              ".bmp", ".dib",  ".jpe", ".jfif"};

/// Enough for the header of an image without a long preview.
constexpr std::uint64_t bytes_for_header = std::uint64_t{16} << 10;

std::int64_t list_nested(const std::string& root, const std::string& below, int depth,
                         const std::function<void(std::string_view)>& take) {
  constexpr int deepest = 64;
  if (depth > deepest) throw DataError(fmt::format("'{}/{}' is nested more than {} deep", root, below, deepest));
  const FolderEntries entries = entries_of(below.empty() ? root : root + "/" + below);
  const std::string prefix = below.empty() ? "" : below + "/";
  std::int64_t num_linked_folders = entries.num_linked_folders;
  for (const std::string& file : entries.files) take(prefix + file);
  for (const std::string& folder : entries.folders)
    num_linked_folders += list_nested(root, prefix + folder, depth + 1, take);
  return num_linked_folders;
}

}  // namespace

bool is_called_image(std::string_view path) {
  std::string extension = fs::path(path).extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](char letter) { return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter + 32) : letter; });
  return std::find(image_extensions.begin(), image_extensions.end(), extension) != image_extensions.end();
}

void PathList::add(std::string_view path) {
  text_ += path;
  ends_.push_back(text_.size());
}

void PathList::shrink() {
  text_.shrink_to_fit();
  ends_.shrink_to_fit();
}

std::string_view PathList::operator[](std::int64_t i) const {
  const auto at = static_cast<std::size_t>(i);
  const std::size_t begin = at == 0 ? 0 : ends_[at - 1];
  return std::string_view(text_).substr(begin, ends_[at] - begin);
}

std::int64_t PathList::num_bytes() const {
  return static_cast<std::int64_t>(text_.capacity() + ends_.capacity() * sizeof(std::size_t));
}

FolderEntries entries_of(const std::string& folder) {
  FolderEntries entries;
  std::error_code error;
  fs::directory_iterator place(folder, error);
  for (; !error && place != fs::directory_iterator(); place.increment(error)) {
    std::string name = place->path().filename().string();
    if (name.starts_with('.')) continue;
    std::error_code ignored;
    const bool is_folder = place->is_directory(ignored);
    if (is_folder && place->is_symlink(ignored))
      ++entries.num_linked_folders;
    else if (is_folder)
      entries.folders.push_back(std::move(name));
    else
      entries.files.push_back(std::move(name));
  }
  if (error) throw DataError(fmt::format("cannot read the folder '{}': {}", folder, error.message()));
  std::sort(entries.folders.begin(), entries.folders.end());
  std::sort(entries.files.begin(), entries.files.end());
  return entries;
}

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

std::string validation_folder_in(const std::string& folder) {
  for (const char* name : {"val", "valid", "validation", "test"}) {
    std::string path = (fs::path(folder) / name).string();
    if (is_folder(path)) return path;
  }
  return "";
}

std::int64_t list_files(const std::string& root, const std::string& below,
                        const std::function<void(std::string_view path)>& take) {
  return list_nested(root, below, 0, take);
}

std::string path_below(const std::string& root, std::string_view path) {
  return path.starts_with('/') || root.empty() ? std::string(path) : fmt::format("{}/{}", root, path);
}

ImageFileFacts look_at_image(const std::string& name, ImageDecoder& decoder, std::vector<std::byte>& memory,
                             const std::function<std::uint64_t(std::uint64_t most_bytes)>& read) {
  ImageFileFacts facts;
  memory.clear();  // of the file before
  try {
    facts.num_bytes = read(bytes_for_header);
    const bool has_all = facts.num_bytes <= bytes_for_header;
    ImageHeader header;
    try {
      header = decoder.read_header(memory, name);
    } catch (const DataError&) {
      if (has_all) throw;
      read(UINT64_MAX);
      header = decoder.read_header(memory, name);
    }
    facts.size = header.size;
    facts.working_bytes = header.working_bytes;
    facts.is_turned = header.is_turned;
    facts.is_webp = header.format == ImageFormat::webp;
    facts.is_image = true;
  } catch (const DataError& error) {
    facts.mistake = error.what();
  }
  return facts;
}

std::vector<ImageFileFacts> look_at_images(const std::string& root, const PathList& paths, std::int64_t max_pixels,
                                           FileNames names) {
  std::vector<ImageFileFacts> found(static_cast<std::size_t>(paths.size()));
  scan_in_parallel(paths.size(), [&]() -> Look {
    const auto decoder = std::make_shared<ImageDecoder>(max_pixels);
    const auto memory = std::make_shared<std::vector<std::byte>>();
    return [&, decoder, memory](std::int64_t i) {
      const std::string path = path_below(root, paths[i]);
      ImageFileFacts& facts = found[static_cast<std::size_t>(i)];
      facts = look_at_image(path, *decoder, *memory,
                            [&](std::uint64_t most_bytes) { return read_file(path, *memory, most_bytes); });
      // What is neither called an image nor begins like one is told of by nobody.
      const bool is_meant = names == FileNames::listed || is_called_image(path) || looks_like_image(*memory);
      if (!is_meant) facts = {};
    };
  });
  return found;
}

void LeftOutFiles::check(const DataConfig& config) const {
  if (config.on_bad_sample == OnBadSample::skip || mistakes.empty()) return;
  throw DataError(fmt::format("{}{}; data.on_bad_sample=skip leaves such files out", mistakes.front(),
                              mistakes.size() == 1 ? "" : fmt::format(" (and {} more like it)", mistakes.size() - 1)));
}

std::vector<std::string> LeftOutFiles::remarks() const {
  std::vector<std::string> remarks;
  const auto files = [](std::size_t count) { return count == 1 ? "1 file" : fmt::format("{} files", count); };
  constexpr std::size_t most_told = 20;
  if (!mistakes.empty()) {
    std::string told =
        fmt::format("{} that cannot be read {} left out:", files(mistakes.size()), mistakes.size() == 1 ? "is" : "are");
    for (std::size_t i = 0; i < std::min(mistakes.size(), most_told); ++i) told += "\n  " + mistakes[i];
    if (mistakes.size() > most_told) told += fmt::format("\n  and {} more", mistakes.size() - most_told);
    remarks.push_back(std::move(told));
  }
  if (num_other_files > 0)
    remarks.push_back(fmt::format("{} that {} left out", files(static_cast<std::size_t>(num_other_files)),
                                  num_other_files == 1 ? "is no image is" : "are no images are"));
  if (num_linked_folders > 0)
    remarks.push_back(fmt::format("links to folders are not followed: {} of them", num_linked_folders));
  return remarks;
}

void ImageFiles::add(std::string_view path, const ImageFileFacts& facts) {
  const bool is_first = paths_.size() == 0;
  paths_.add(path);
  facts_.smallest = is_first ? facts.size : std::min(facts_.smallest, facts.size);
  facts_.largest = is_first ? facts.size : std::max(facts_.largest, facts.size);
  facts_.size = facts_.smallest == facts_.largest ? std::optional(facts.size) : std::nullopt;
  facts_.most_stored_bytes = std::max(facts_.most_stored_bytes, static_cast<std::int64_t>(facts.num_bytes));
  facts_.sizes.add(facts.size);
  const std::int64_t num_pixels = facts.size[0] * facts.size[1];
  facts_.sum_pixels += num_pixels;
  if (facts.is_turned) facts_.most_turned_pixels = std::max(facts_.most_turned_pixels, num_pixels);
  if (facts.is_webp)
    facts_.most_whole_pixels = std::max(facts_.most_whole_pixels, num_pixels);
  else
    facts_.most_working_bytes = std::max(facts_.most_working_bytes, facts.working_bytes);
}

StoredImage ImageFiles::open(std::int64_t index, std::vector<std::byte>& memory) const {
  const auto most_bytes = static_cast<std::uint64_t>(facts_.most_stored_bytes);
  const std::uint64_t num_bytes = read_file(FilePath(root_, paths_[index]), memory, most_bytes);
  if (num_bytes > most_bytes)
    throw DataError(fmt::format("'{}' was replaced: it has {} bytes, but no file had more than {} when the run began",
                                name_of(index), num_bytes, most_bytes));
  return {memory};
}

std::uint64_t identity_of_file(const std::string& path) {
  IdentityHash hash;
  std::error_code ignored;
  hash.add(std::filesystem::absolute(path, ignored).lexically_normal().string());
  struct stat status {};
  if (stat(path.c_str(), &status) == 0) {
    hash.add_number(static_cast<std::uint64_t>(status.st_size));
    hash.add_number(static_cast<std::uint64_t>(status.st_mtim.tv_sec));
    hash.add_number(static_cast<std::uint64_t>(status.st_mtim.tv_nsec));
  }
  return hash.value();
}

std::uint32_t add_to_crc32(std::uint32_t crc, std::string_view path, const ImageFileFacts& facts,
                           std::string_view target) {
  const std::string identity = fmt::format("{}\n{}\n{}\n", path, facts.num_bytes, target);
  return static_cast<std::uint32_t>(
      crc32(crc, reinterpret_cast<const Bytef*>(identity.data()), static_cast<uInt>(identity.size())));
}

}  // namespace trainer
