#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>

#include "datasets/dataset_format.h"
#include "datasets/file_scan.h"
#include "datasets/image/image_decoder.h"
#include "engine/config/text/utf8_text.h"

// A folder of images for each class, as torchvision.datasets.ImageFolder reads it: classes are the folders in the order
// of their names, and samples the images in and below them: those of a folder before those of the folders in it.
//
// Note [Which files are images]
// A file is a sample if its first bytes are those of an image, or it is called one: where its header cannot be read, or
// it is of a format that is not decoded, it is a sample that cannot be read (data.on_bad_sample). Others are left out
// and counted; hidden ones are not looked at. Links are followed to files, not to folders.

namespace trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 4> validation_names = {"val", "valid", "validation", "test"};
constexpr std::array<std::string_view, 8> image_extensions = {".jpg", ".jpeg", ".png", ".webp",
                                                              ".bmp", ".dib",  ".jpe", ".jfif"};

/// Enough for the header of an image without a long preview.
constexpr std::uint64_t bytes_for_header = std::uint64_t{16} << 10;

/// Its entries that are not hidden, in the order of their names.
struct Entries {
  std::vector<std::string> folders, files;
  std::int64_t num_linked_folders = 0;
};

Entries entries_of(const std::string& folder) {
  Entries entries;
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

bool is_called_image(const std::string& path) {
  std::string extension = fs::path(path).extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](char letter) { return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter + 32) : letter; });
  return std::find(image_extensions.begin(), image_extensions.end(), extension) != image_extensions.end();
}

/// Paths one behind the other, each without the folder that they are all in.
class PathList {
 public:
  void add(std::string_view path) {
    text_ += path;
    ends_.push_back(text_.size());
  }
  void shrink() {
    text_.shrink_to_fit();
    ends_.shrink_to_fit();
  }
  std::int64_t size() const { return static_cast<std::int64_t>(ends_.size()); }
  std::string_view operator[](std::int64_t i) const {
    const auto at = static_cast<std::size_t>(i);
    const std::size_t begin = at == 0 ? 0 : ends_[at - 1];
    return std::string_view(text_).substr(begin, ends_[at] - begin);
  }
  std::int64_t num_bytes() const {
    return static_cast<std::int64_t>(text_.capacity() + ends_.capacity() * sizeof(std::size_t));
  }

 private:
  std::string text_;
  std::vector<std::size_t> ends_;
};

/// Files that were found below class folders, before they are looked at.
struct Listing {
  PathList paths;
  std::vector<std::int32_t> labels;
  std::int64_t num_linked_folders = 0;
};

void list_class(const std::string& root, const std::string& below, std::int32_t label, int depth, Listing& listing) {
  constexpr int deepest = 64;
  if (depth > deepest) throw DataError(fmt::format("'{}/{}' is nested more than {} deep", root, below, deepest));
  const Entries entries = entries_of(root + "/" + below);
  listing.num_linked_folders += entries.num_linked_folders;
  for (const std::string& file : entries.files) {
    listing.paths.add(fmt::format("{}/{}", below, file));
    listing.labels.push_back(label);
  }
  for (const std::string& folder : entries.folders)
    list_class(root, fmt::format("{}/{}", below, folder), label, depth + 1, listing);
}

/// What a look at a file tells.
struct FileFacts {
  bool is_sample = false;
  Pair size{0, 0};
  std::uint64_t num_bytes = 0;
  std::string mistake;  ///< why a file that is called an image is no sample
};

FileFacts look_at(const std::string& path, ImageDecoder& decoder, std::vector<std::byte>& memory) {
  FileFacts facts;
  memory.clear();  // of the file before
  try {
    facts.num_bytes = read_file(path, memory, bytes_for_header);
    if (!looks_like_image(memory) && !is_called_image(path)) return facts;
    const bool has_all = facts.num_bytes <= bytes_for_header;
    try {
      facts.size = decoder.read_header(memory, path).size;
    } catch (const DataError&) {
      if (has_all) throw;
      read_file(path, memory);
      facts.size = decoder.read_header(memory, path).size;
    }
    facts.is_sample = true;
  } catch (const DataError& error) {
    if (is_called_image(path) || looks_like_image(memory)) facts.mistake = error.what();
  }
  return facts;
}

class FolderImages final : public ImageSource {
 public:
  /// `mistakes`: samples that cannot be read; `num_left_out`: files that are no images.
  FolderImages(std::string root, Listing listing, std::int64_t max_pixels, std::vector<std::string>& mistakes,
               std::int64_t& num_left_out)
      : root_(std::move(root)) {
    const std::int64_t count = listing.paths.size();
    std::vector<FileFacts> found(static_cast<std::size_t>(count));
    scan_in_parallel(count, [&]() -> Look {
      const auto decoder = std::make_shared<ImageDecoder>(max_pixels);
      const auto memory = std::make_shared<std::vector<std::byte>>();
      return [&, decoder, memory](std::int64_t i) {
        const std::string path = fmt::format("{}/{}", root_, listing.paths[i]);
        found[static_cast<std::size_t>(i)] = look_at(path, *decoder, *memory);
      };
    });
    std::uint32_t crc = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      FileFacts& file = found[static_cast<std::size_t>(i)];
      if (!file.mistake.empty())
        mistakes.push_back(std::move(file.mistake));
      else if (!file.is_sample)
        ++num_left_out;
      if (!file.is_sample) continue;
      const std::int32_t label = listing.labels[static_cast<std::size_t>(i)];
      paths_.add(listing.paths[i]);
      labels_.push_back(label);
      note_size(file.size);
      const std::string identity = fmt::format("{}\n{}\n{}\n", listing.paths[i], file.num_bytes, label);
      crc = static_cast<std::uint32_t>(
          crc32(crc, reinterpret_cast<const Bytef*>(identity.data()), static_cast<uInt>(identity.size())));
    }
    paths_.shrink();
    labels_.shrink_to_fit();
    content_crc32_ = crc;
  }

  std::int64_t size() const override { return paths_.size(); }
  const ImageFacts& facts() const override { return facts_; }
  std::string name_of(std::int64_t index) const override { return fmt::format("{}/{}", root_, paths_[index]); }
  StoredImage open(std::int64_t index, std::vector<std::byte>& memory) const override {
    read_file(name_of(index), memory);
    return {memory};
  }
  void read_target(std::int64_t index, std::byte* target) const override {
    std::memcpy(target, &labels_[static_cast<std::size_t>(index)], sizeof(std::int32_t));
  }
  /// Of names, sizes and classes: files are not read whole for it.
  std::optional<std::uint32_t> content_crc32() const override { return content_crc32_; }

  /// Of host memory.
  std::int64_t held_bytes() const {
    return paths_.num_bytes() + static_cast<std::int64_t>(labels_.capacity() * sizeof(std::int32_t));
  }
  /// Samples of each class.
  std::vector<std::int64_t> class_counts(std::int64_t num_classes) const {
    std::vector<std::int64_t> counts(static_cast<std::size_t>(num_classes));
    for (const std::int32_t label : labels_) ++counts[static_cast<std::size_t>(label)];
    return counts;
  }

 private:
  void note_size(const Pair& size) {
    const bool is_first = labels_.size() == 1;
    facts_.smallest = is_first ? size : std::min(facts_.smallest, size);
    facts_.largest = is_first ? size : std::max(facts_.largest, size);
    facts_.size = facts_.smallest == facts_.largest ? std::optional(size) : std::nullopt;
  }

  std::string root_;
  PathList paths_;
  std::vector<std::int32_t> labels_;
  ImageFacts facts_;
  std::uint32_t content_crc32_ = 0;
};

/// Where training and validation images are; validation empty: nowhere.
struct Folders {
  std::string train, validation;
};

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

Folders folders_of(const DataConfig& config) {
  if (config.root.empty() && config.train.empty())
    throw data_config_error(config, "data.root is missing",
                            "the folder of class folders, or one with train and val folders of them");
  Folders folders;
  const std::string below = (fs::path(config.root) / "train").string();
  const bool has_parts = config.train.empty() && is_folder(below);
  folders.train = !config.train.empty() ? data_path(config, config.train) : has_parts ? below : config.root;
  if (!config.validation.empty()) {
    folders.validation = data_path(config, config.validation);
  } else if (has_parts && config.split <= 0) {
    for (const char* name : validation_names) {
      std::string path = (fs::path(config.root) / name).string();
      if (folders.validation.empty() && is_folder(path)) folders.validation = std::move(path);
    }
  }
  return folders;
}

std::vector<std::string> image_folder_files(const DataConfig& config) {
  const Folders folders = folders_of(config);
  std::vector<std::string> needed = {folders.train};
  if (!folders.validation.empty()) needed.push_back(folders.validation);
  return needed;
}

/// The class folders, in the order of their numbers.
std::vector<std::string> classes_of(const DataConfig& config, const std::string& folder, Listing& listing) {
  const Entries entries = entries_of(folder);
  listing.num_linked_folders += entries.num_linked_folders;
  if (entries.folders.empty())
    throw DataError(fmt::format("'{}' has no folders in it; image_folder takes a folder of images for each class{}",
                                folder,
                                entries.num_linked_folders > 0 ? ", and does not follow links to folders" : ""));
  if (config.class_names.empty()) return entries.folders;
  for (const std::string& name : config.class_names) {
    if (std::find(entries.folders.begin(), entries.folders.end(), name) == entries.folders.end())
      throw data_config_error(config,
                              fmt::format("data.class_names has '{}', which is no folder in '{}'", name, folder),
                              fmt::format("one of {}", fmt::join(entries.folders, ", ")));
    if (std::count(config.class_names.begin(), config.class_names.end(), name) > 1)
      throw data_config_error(config, fmt::format("data.class_names has '{}' twice", name));
  }
  return config.class_names;
}

void list_classes(const std::string& root, const std::vector<std::string>& classes, Listing& listing) {
  for (std::size_t label = 0; label < classes.size(); ++label)
    list_class(root, classes[label], static_cast<std::int32_t>(label), 0, listing);
}

/// Those of the classes that a folder of validation images has; it has no others.
std::vector<std::string> validation_classes(const DataConfig& config, const Folders& folders,
                                            const std::vector<std::string>& classes, Listing& listing) {
  const Entries entries = entries_of(folders.validation);
  listing.num_linked_folders += entries.num_linked_folders;
  for (const std::string& name : entries.folders) {
    if (config.class_names.empty() && std::find(classes.begin(), classes.end(), name) == classes.end())
      throw DataError(
          fmt::format("'{}/{}' is no class: '{}' has no such folder", folders.validation, name, folders.train));
  }
  return entries.folders;
}

/// What reading a folder has left out.
struct LeftOut {
  std::vector<std::string> mistakes;
  std::int64_t num_other_files = 0, num_linked_folders = 0;
};

std::shared_ptr<const FolderImages> scan(const DataConfig& config, const std::string& root, Listing listing,
                                         LeftOut& left_out) {
  left_out.num_linked_folders += listing.num_linked_folders;
  auto images = std::make_shared<const FolderImages>(root, std::move(listing), config.max_pixels, left_out.mistakes,
                                                     left_out.num_other_files);
  if (config.on_bad_sample == OnBadSample::error && !left_out.mistakes.empty())
    throw DataError(fmt::format(
        "{}{}; data.on_bad_sample=skip leaves such files out", left_out.mistakes.front(),
        left_out.mistakes.size() == 1 ? "" : fmt::format(" (and {} more like it)", left_out.mistakes.size() - 1)));
  return images;
}

std::vector<std::string> remarks_of(const LeftOut& left_out) {
  std::vector<std::string> remarks;
  const auto files = [](std::size_t count) { return count == 1 ? "1 file" : fmt::format("{} files", count); };
  if (!left_out.mistakes.empty())
    remarks.push_back(fmt::format("{} that cannot be read {} left out; the first: {}", files(left_out.mistakes.size()),
                                  left_out.mistakes.size() == 1 ? "is" : "are", left_out.mistakes.front()));
  if (left_out.num_other_files > 0)
    remarks.push_back(fmt::format("{} that {} left out", files(static_cast<std::size_t>(left_out.num_other_files)),
                                  left_out.num_other_files == 1 ? "is no image is" : "are no images are"));
  if (left_out.num_linked_folders > 0)
    remarks.push_back(fmt::format("links to folders are not followed: {} of them", left_out.num_linked_folders));
  return remarks;
}

DatasetHeader inspect_image_folder(const DataConfig& config) {
  const Folders folders = folders_of(config);
  DatasetHeader header;
  header.source = folders.train;
  LeftOut left_out;
  Listing listing;
  const std::vector<std::string> classes = classes_of(config, folders.train, listing);
  list_classes(folders.train, classes, listing);
  const auto train = scan(config, folders.train, std::move(listing), left_out);
  const std::vector<std::int64_t> counts = train->class_counts(static_cast<std::int64_t>(classes.size()));
  for (std::size_t label = 0; label < classes.size(); ++label) {
    if (counts[label] == 0)
      throw DataError(
          fmt::format("'{}/{}' has no image in it; remove the folder, or name the classes to take in "
                      "data.class_names",
                      folders.train, classes[label]));
  }
  header.train_images = train;
  header.held_bytes = train->held_bytes();
  if (!folders.validation.empty()) {
    Listing of_validation;
    const std::vector<std::string> there = validation_classes(config, folders, classes, of_validation);
    for (std::size_t label = 0; label < classes.size(); ++label) {
      if (std::find(there.begin(), there.end(), classes[label]) != there.end())
        list_class(folders.validation, classes[label], static_cast<std::int32_t>(label), 0, of_validation);
    }
    const auto validation = scan(config, folders.validation, std::move(of_validation), left_out);
    if (validation->size() == 0) throw DataError(fmt::format("'{}' has no image in it", folders.validation));
    header.num_validation = validation->size();
    *header.held_bytes += validation->held_bytes();
    header.validation_images = validation;
  }
  header.sample.dtype = DType::u8;
  if (const auto size = train->facts().size) header.sample.shape = Shape{(*size)[0], (*size)[1], config.channels};
  header.num_outputs = static_cast<std::int64_t>(classes.size());
  header.num_train = train->size();
  for (const std::string& name : classes) header.preprocessing.classes.push_back(escaped(name));
  header.remarks = remarks_of(left_out);
  return header;
}

}  // namespace

DatasetFormat image_folder_format() {
  DatasetFormat format;
  format.required_files = image_folder_files;
  format.inspect = inspect_image_folder;
  format.held_bytes = holds_nothing;  // of files that are declared, whose names nobody knows
  return format;
}

}  // namespace trainer
