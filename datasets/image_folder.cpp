#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "datasets/dataset_format.h"
#include "datasets/labelled_images.h"
#include "engine/config/text/utf8_text.h"

// A folder of images for each class, as torchvision.datasets.ImageFolder reads it: classes are the folders in the order
// of their names, and samples the images in and below them: those of a folder before those of the folders in it.

namespace trainer {
namespace {

namespace fs = std::filesystem;

/// Files that were found below class folders, before they are looked at.
struct Listing {
  PathList paths;
  std::vector<std::int32_t> labels;
  std::int64_t num_linked_folders = 0;
};

void list_class(const std::string& root, const std::string& name, std::int32_t label, Listing& listing) {
  listing.num_linked_folders += list_files(root, name, [&](std::string_view path) {
    listing.paths.add(path);
    listing.labels.push_back(label);
  });
}

using FolderImages = LabelledImages<std::int32_t>;

/// Where training and validation images are; validation empty: nowhere.
struct Folders {
  std::string train, validation;
};

Folders folders_of(const DataConfig& config) {
  if (config.root.empty() && config.train.empty())
    throw data_config_error(config, "data.root is missing",
                            "the folder of class folders, or one with train and val folders of them");
  Folders folders;
  const std::string below = (fs::path(config.root) / "train").string();
  const bool has_parts = config.train.empty() && is_folder(below);
  folders.train = !config.train.empty() ? data_path(config, config.train) : has_parts ? below : config.root;
  if (!config.validation.empty())
    folders.validation = data_path(config, config.validation);
  else if (has_parts && config.split <= 0)
    folders.validation = validation_folder_in(config.root);
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
  const FolderEntries entries = entries_of(folder);
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
    list_class(root, classes[label], static_cast<std::int32_t>(label), listing);
}

/// Those of the classes that a folder of validation images has; it has no others.
std::vector<std::string> validation_classes(const DataConfig& config, const Folders& folders,
                                            const std::vector<std::string>& classes, Listing& listing) {
  const FolderEntries entries = entries_of(folders.validation);
  listing.num_linked_folders += entries.num_linked_folders;
  for (const std::string& name : entries.folders) {
    if (config.class_names.empty() && std::find(classes.begin(), classes.end(), name) == classes.end())
      throw DataError(
          fmt::format("'{}/{}' is no class: '{}' has no such folder", folders.validation, name, folders.train));
  }
  return entries.folders;
}

std::shared_ptr<const FolderImages> scan(const DataConfig& config, const std::string& root, const Listing& listing,
                                         LeftOutFiles& left_out) {
  left_out.num_linked_folders += listing.num_linked_folders;
  auto images = std::make_shared<FolderImages>(root, 1);
  std::vector<ImageFileFacts> files = look_at_images(root, listing.paths, config.max_pixels, FileNames::told);
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (files[i].is_image)
      images->add(listing.paths[static_cast<std::int64_t>(i)], files[i], &listing.labels[i]);
    else if (!files[i].mistake.empty())
      left_out.mistakes.push_back(std::move(files[i].mistake));
    else
      ++left_out.num_other_files;
  }
  images->shrink();
  left_out.check(config);
  return images;
}

/// Samples of each class.
std::vector<std::int64_t> class_counts(const FolderImages& images, std::size_t num_classes) {
  std::vector<std::int64_t> counts(num_classes);
  for (const std::int32_t label : images.targets()) ++counts[static_cast<std::size_t>(label)];
  return counts;
}

DatasetHeader inspect_image_folder(const DataConfig& config) {
  const Folders folders = folders_of(config);
  DatasetHeader header;
  header.source = folders.train;
  LeftOutFiles left_out;
  Listing listing;
  const std::vector<std::string> classes = classes_of(config, folders.train, listing);
  list_classes(folders.train, classes, listing);
  const auto train = scan(config, folders.train, listing, left_out);
  const std::vector<std::int64_t> counts = class_counts(*train, classes.size());
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
        list_class(folders.validation, classes[label], static_cast<std::int32_t>(label), of_validation);
    }
    const auto validation = scan(config, folders.validation, of_validation, left_out);
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
  header.remarks = left_out.remarks();
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
