#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/image/image_source.h"
#include "engine/config/experiment.h"

namespace trainer {

// Note [Which files are images]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Of the files of a folder those are samples whose first bytes are those of an image, or that are called one: where
// their header cannot be read, or is of a format that is not decoded, they are samples that cannot be read
// (data.on_bad_sample). Others are left out and counted; hidden ones are not looked at. Links are followed to files,
// not to folders. A file that a list names is a sample whatever it is called.

/// Paths one behind the other, each without the folder that they are all in.
class PathList {
 public:
  void add(std::string_view path);
  void shrink();
  std::int64_t size() const { return static_cast<std::int64_t>(ends_.size()); }
  std::string_view operator[](std::int64_t i) const;
  /// Of host memory.
  std::int64_t num_bytes() const;

 private:
  std::string text_;
  std::vector<std::size_t> ends_;
};

/// Entries of a folder that are not hidden, in the order of their names. DataError where it cannot be read.
struct FolderEntries {
  std::vector<std::string> folders, files;
  std::int64_t num_linked_folders = 0;
};
FolderEntries entries_of(const std::string& folder);

bool is_folder(const std::string& path);

/// The first of `folder`'s val, valid, validation and test that is a folder; empty: none is.
std::string validation_folder_in(const std::string& folder);

/// Calls `take` with the path below `root` of each file in and below `root`/`below`, those of a folder before those of
/// the folders in it, and returns how many links to folders there are. `below` empty: all of them.
std::int64_t list_files(const std::string& root, const std::string& below,
                        const std::function<void(std::string_view path)>& take);

/// What a look at a file's first bytes tells.
struct ImageFileFacts {
  bool is_image = false;
  Pair size{0, 0};  ///< of the upright image
  std::uint64_t num_bytes = 0;
  std::int64_t working_bytes = 0;  ///< as in ImageHeader
  bool is_turned = false;          ///< likewise
  bool is_webp = false;
  std::string mistake;  ///< why a file that should be an image is none that can be read
};

/// Whether a file is called as images are: .jpg, .PNG …
bool is_called_image(std::string_view path);

class ImageDecoder;

/// Of one file: `read` fills `memory` with its first bytes, at most so many, and returns the size of the whole. `name`:
/// what messages call it.
ImageFileFacts look_at_image(const std::string& name, ImageDecoder& decoder, std::vector<std::byte>& memory,
                             const std::function<std::uint64_t(std::uint64_t most_bytes)>& read);

enum class FileNames : std::uint8_t {
  told,    ///< a file that is not called an image and is none is left out
  listed,  ///< such a file is a mistake
};

/// Of all files of the list, which are below `root`; absolute paths are where they say.
std::vector<ImageFileFacts> look_at_images(const std::string& root, const PathList& paths, std::int64_t max_pixels,
                                           FileNames names);

/// `path` below `root`, or as it is where it is absolute.
std::string path_below(const std::string& root, std::string_view path);

/// A hash of where a file is, its size and when it was changed.
std::uint64_t identity_of_file(const std::string& path);

/// What has been left out of some files.
struct LeftOutFiles {
  std::vector<std::string> mistakes;  ///< files that cannot be read, each with why
  std::int64_t num_other_files = 0, num_linked_folders = 0;

  /// DataError of the first mistake, unless data.on_bad_sample leaves such files out.
  void check(const DataConfig& config) const;
  /// Sentences about them.
  std::vector<std::string> remarks() const;
};

/// Image files by number, with what is known of them from their headers.
class ImageFiles {
 public:
  explicit ImageFiles(std::string root) : root_(std::move(root)) {}

  void add(std::string_view path, const ImageFileFacts& facts);
  void shrink() { paths_.shrink(); }

  std::int64_t size() const { return paths_.size(); }
  const ImageFacts& facts() const { return facts_; }
  std::string_view path_of(std::int64_t index) const { return paths_[index]; }
  std::string name_of(std::int64_t index) const { return path_below(root_, paths_[index]); }
  /// DataError where the file is larger than the largest was when all were looked at.
  StoredImage open(std::int64_t index, std::vector<std::byte>& memory) const;
  std::uint64_t identity_of(std::int64_t index) const { return identity_of_file(name_of(index)); }
  std::int64_t held_bytes() const { return paths_.num_bytes(); }

 private:
  std::string root_;
  PathList paths_;
  ImageFacts facts_;
};

/// Adds what a file is called, its size and its target to a checksum: files are not read whole for it.
std::uint32_t add_to_crc32(std::uint32_t crc, std::string_view path, const ImageFileFacts& facts,
                           std::string_view target);

}  // namespace trainer
