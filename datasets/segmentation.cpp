#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "datasets/dataset_description.h"
#include "datasets/file_scan.h"
#include "datasets/identity_hash.h"
#include "datasets/image/image_decoder.h"
#include "datasets/image_files.h"
#include "engine/config/text/utf8_text.h"

// Images and masks of the same names, but for what stands behind the last dot and data.mask_suffix: a mask holds a
// class for each pixel of its image, as a palette's index or as grey.

namespace trainer {
namespace {

namespace fs = std::filesystem;

/// Of a pixel that is left out, and of values that stand for nothing.
constexpr std::int16_t left_out_pixel = 255, no_class = -1;
constexpr std::int64_t most_mask_classes = 255;

/// What each value of a mask becomes.
using MaskTable = std::array<std::int16_t, 256>;

MaskTable mask_table(const DataConfig& config, std::int64_t num_classes) {
  MaskTable table;
  const MaskClasses& classes = config.mask_classes;
  table.fill(classes.leaves_others_out ? left_out_pixel : no_class);
  for (const auto& [value, of_class] : classes.values)
    table[static_cast<std::size_t>(value)] = of_class < 0 ? left_out_pixel : static_cast<std::int16_t>(of_class);
  if (!classes.values.empty()) return table;
  for (std::int64_t value = 0; value < num_classes; ++value)
    table[static_cast<std::size_t>(value)] = static_cast<std::int16_t>(value);
  const std::int64_t ignored = config.ignored_target;
  if (ignored >= 0 && ignored < 256) table[static_cast<std::size_t>(ignored)] = left_out_pixel;
  return table;
}

class MaskedImages final : public ImageSource {
 public:
  MaskedImages(const std::string& images, const std::string& masks, const MaskTable& table, std::int64_t num_classes,
               std::int32_t ignored_target)
      : images_(images), masks_(masks), table_(table), num_classes_(num_classes) {
    for (std::size_t value = 0; value < classes_.size(); ++value) classes_[value] = static_cast<std::int32_t>(value);
    classes_[left_out_pixel] = ignored_target;
  }

  void add(std::string_view image, const ImageFileFacts& image_facts, std::string_view mask,
           const ImageFileFacts& mask_facts) {
    images_.add(image, image_facts);
    masks_.add(mask, mask_facts);
    crc32_ = add_to_crc32(crc32_, image, image_facts, "");
    crc32_ = add_to_crc32(crc32_, mask, mask_facts, "");
  }
  void shrink() {
    images_.shrink();
    masks_.shrink();
  }

  std::int64_t size() const override { return images_.size(); }
  const ImageFacts& facts() const override { return images_.facts(); }
  std::string name_of(std::int64_t index) const override { return images_.name_of(index); }
  StoredImage open(std::int64_t index, std::vector<std::byte>& memory) const override {
    return images_.open(index, memory);
  }
  bool has_masks() const override { return true; }
  const ImageFacts* mask_facts() const override { return &masks_.facts(); }
  std::string mask_name_of(std::int64_t index) const override { return masks_.name_of(index); }
  StoredImage open_mask(std::int64_t index, std::vector<std::byte>& memory) const override {
    return masks_.open(index, memory);
  }
  void classify(std::int64_t index, Image& mask) const override {
    const std::span<std::uint8_t> values = mask.pixels();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::int16_t of_value = table_[values[i]];
      if (of_value == no_class) throw no_class_error(index, mask, i);
      values[i] = static_cast<std::uint8_t>(of_value);
    }
  }
  std::span<const std::int32_t> mask_classes() const override { return classes_; }
  std::uint64_t identity_of(std::int64_t index) const override {
    IdentityHash hash;
    hash.add_number(images_.identity_of(index));
    hash.add_number(masks_.identity_of(index));
    hash.add({reinterpret_cast<const char*>(table_.data()), table_.size() * sizeof(table_[0])});
    return hash.value();
  }
  /// Of names and sizes.
  std::optional<std::uint32_t> content_crc32() const override { return crc32_; }

  /// Of host memory.
  std::int64_t held_bytes() const { return images_.held_bytes() + masks_.held_bytes(); }

 private:
  DataError no_class_error(std::int64_t index, const Image& mask, std::size_t pixel) const {
    const auto at = static_cast<std::int64_t>(pixel);
    const int value = mask.pixels()[pixel];
    const std::string hint =
        value == 255 ? "; data.mask_classes: {0: 0, 255: 1} makes it class 1, loss.ignore_index: 255 leaves it out"
                     : "; data.mask_classes says what values stand for";
    return DataError(fmt::format("'{}' has the value {} in row {}, column {}, which is none of {} classes{}",
                                 mask_name_of(index), value, at / mask.width(), at % mask.width(), num_classes_, hint));
  }

  ImageFiles images_, masks_;
  MaskTable table_;
  std::int64_t num_classes_;
  std::array<std::int32_t, 256> classes_{};
  std::uint32_t crc32_ = 0;
};

/// Where the images and the masks of a part are; both empty: there is none.
struct PartFolders {
  std::string images, masks;
};

std::string masks_beside(const std::string& folder) {
  for (const char* name : {"masks", "labels", "annotations"}) {
    std::string path = (fs::path(folder) / name).string();
    if (is_folder(path)) return path;
  }
  return (fs::path(folder) / "masks").string();
}

struct SegmentationFolders {
  PartFolders train, validation;
};

PartFolders named_part(const DataConfig& config, const std::string& images, const std::string& masks) {
  return {data_path(config, images), data_path(config, masks.empty() ? images : masks)};
}

/// Below the root lie train/images and train/masks with val/images and val/masks, or images/train and masks/train with
/// images/val and masks/val, or images and masks.
SegmentationFolders segmentation_folders(const DataConfig& config) {
  SegmentationFolders folders;
  const bool finds_validation = config.validation.empty() && config.split <= 0;
  if (!config.validation.empty()) folders.validation = named_part(config, config.validation, config.validation_labels);
  if (!config.train.empty()) {
    folders.train = named_part(config, config.train, config.train_labels);
    return folders;
  }
  if (config.root.empty())
    throw data_config_error(config, "data.root is missing", "the folder of images and masks, or data.train");
  const fs::path root(config.root);
  const std::string images = (root / "images").string(), masks = masks_beside(config.root);
  if (is_folder((root / "train").string())) {
    folders.train = {(root / "train" / "images").string(), masks_beside((root / "train").string())};
    const std::string validation = finds_validation ? validation_folder_in(config.root) : "";
    if (!validation.empty())
      folders.validation = {(fs::path(validation) / "images").string(), masks_beside(validation)};
  } else if (is_folder((fs::path(images) / "train").string())) {
    folders.train = {(fs::path(images) / "train").string(), (fs::path(masks) / "train").string()};
    const std::string validation = finds_validation ? validation_folder_in(images) : "";
    if (!validation.empty())
      folders.validation = {validation, (fs::path(masks) / fs::path(validation).filename()).string()};
  } else {
    folders.train = {images, masks};
  }
  return folders;
}

std::vector<std::string> segmentation_files(const DataConfig& config) {
  const SegmentationFolders folders = segmentation_folders(config);
  std::vector<std::string> needed = {folders.train.images, folders.train.masks};
  if (!folders.validation.images.empty()) {
    needed.push_back(folders.validation.images);
    needed.push_back(folders.validation.masks);
  }
  return needed;
}

/// The images of a folder, or its masks, by their names without what stands behind the last dot and, of masks, the
/// suffix.
struct NamedImages {
  std::string folder;
  PathList paths;
  std::vector<ImageFileFacts> facts;
  std::map<std::string, std::int64_t> by_name;
};

/// "a/b" of "a/b.jpg"
std::string_view stem_of(std::string_view path) {
  const std::size_t dot = path.rfind('.'), slash = path.rfind('/');
  const bool has_ending = dot != std::string_view::npos && (slash == std::string_view::npos || dot > slash);
  return has_ending ? path.substr(0, dot) : path;
}

/// Files of a folder whose stems end in `suffix`, or, of the images of a folder that holds masks too, do not.
NamedImages look_into(const DataConfig& config, const std::string& folder, bool are_masks, bool has_both,
                      LeftOutFiles& left_out) {
  NamedImages found;
  found.folder = folder;
  const std::string& suffix = config.mask_suffix;
  left_out.num_linked_folders += list_files(folder, "", [&](std::string_view path) {
    const bool has_suffix = !suffix.empty() && stem_of(path).ends_with(suffix);
    if (are_masks ? suffix.empty() || has_suffix : !has_both || !has_suffix) found.paths.add(path);
  });
  found.facts = look_at_images(folder, found.paths, config.max_pixels, FileNames::told);
  for (std::int64_t i = 0; i < found.paths.size(); ++i) {
    const ImageFileFacts& file = found.facts[static_cast<std::size_t>(i)];
    if (!file.is_image && file.mistake.empty()) {
      ++left_out.num_other_files;
      continue;
    }
    std::string_view name = stem_of(found.paths[i]);
    if (are_masks) name.remove_suffix(suffix.size());
    const auto [at, is_new] = found.by_name.emplace(name, i);
    if (!is_new)
      throw DataError(fmt::format("'{}/{}' and '{}/{}' have one name; {}", folder, found.paths[at->second], folder,
                                  found.paths[i], are_masks ? "an image has one mask" : "images have a name each"));
  }
  return found;
}

/// Adds what has a mask, and says what has none.
void pair_up(const NamedImages& images, const NamedImages& masks, MaskedImages& source, LeftOutFiles& left_out) {
  const auto facts_of = [](const NamedImages& named, std::int64_t i) -> const ImageFileFacts& {
    return named.facts[static_cast<std::size_t>(i)];
  };
  for (const auto& [name, image] : images.by_name) {
    const ImageFileFacts& image_facts = facts_of(images, image);
    const std::string path = path_below(images.folder, images.paths[image]);
    const auto mask = masks.by_name.find(name);
    if (!image_facts.is_image) {
      left_out.mistakes.push_back(image_facts.mistake);
    } else if (mask == masks.by_name.end()) {
      left_out.mistakes.push_back(fmt::format("'{}' has no mask in '{}'", path, masks.folder));
    } else if (const ImageFileFacts& mask_facts = facts_of(masks, mask->second); !mask_facts.is_image) {
      left_out.mistakes.push_back(mask_facts.mistake);
    } else if (mask_facts.size != image_facts.size) {
      left_out.mistakes.push_back(fmt::format("'{}' is {}×{}, but its image '{}' {}×{}",
                                              path_below(masks.folder, masks.paths[mask->second]), mask_facts.size[0],
                                              mask_facts.size[1], path, image_facts.size[0], image_facts.size[1]));
    } else {
      source.add(images.paths[image], image_facts, masks.paths[mask->second], mask_facts);
    }
  }
  for (const auto& [name, mask] : masks.by_name)
    if (!images.by_name.contains(name))
      left_out.mistakes.push_back(fmt::format("'{}' is the mask of no image in '{}'",
                                              path_below(masks.folder, masks.paths[mask]), images.folder));
}

/// "0, 1, 255": what the first mask that can be read holds; empty where there is none.
std::string values_of_a_mask(const DataConfig& config, const NamedImages& masks) {
  for (const auto& [name, i] : masks.by_name) {
    if (!masks.facts[static_cast<std::size_t>(i)].is_image) continue;
    const std::string path = path_below(masks.folder, masks.paths[i]);
    std::vector<std::byte> file;
    Image mask;
    try {
      read_file(path, file);
      ImageDecoder(config.max_pixels).decode_mask(file, path, mask);
    } catch (const DataError&) {
      continue;
    }
    std::set<int> values(mask.pixels().begin(), mask.pixels().end());
    constexpr std::size_t most_told = 12;
    const bool are_many = values.size() > most_told;
    while (values.size() > most_told) values.erase(std::prev(values.end()));
    return fmt::format("; '{}' holds {}{}", path, fmt::join(values, ", "), are_many ? ", …" : "");
  }
  return "";
}

std::int64_t num_mask_classes(const DataConfig& config, const NamedImages& masks) {
  std::int64_t count = config.classes;
  std::int64_t of_map = 0;
  for (const auto& each : config.mask_classes.values) of_map = std::max(of_map, each.of_class + 1);
  const auto named = static_cast<std::int64_t>(config.class_names.size());
  if (count == 0) count = named > 0 ? named : of_map;
  if (count == 0)
    throw data_config_error(config, "data.classes is missing" + values_of_a_mask(config, masks),
                            "how many classes masks have, or data.mask_classes");
  if (named > 0 && named != count)
    throw data_config_error(config,
                            fmt::format("data.class_names has {} names, but there are {} classes", named, count),
                            "a name for each class");
  if (of_map > count)
    throw data_config_error(config,
                            fmt::format("data.mask_classes has class {}, but there are {} classes", of_map - 1, count),
                            "classes from 0 on");
  if (count > most_mask_classes)
    throw data_config_error(config, fmt::format("masks of {} classes are not read", count),
                            fmt::format("at most {}", most_mask_classes));
  return count;
}

std::shared_ptr<const MaskedImages> scan_part(const DataConfig& config, const PartFolders& folders,
                                              std::int64_t& num_classes, LeftOutFiles& left_out) {
  const bool has_both = folders.images == folders.masks;
  if (has_both && config.mask_suffix.empty())
    throw data_config_error(config, fmt::format("images and masks are both in '{}'", folders.images),
                            "data.mask_suffix, or a folder each");
  const NamedImages images = look_into(config, folders.images, /*are_masks=*/false, has_both, left_out);
  const NamedImages masks = look_into(config, folders.masks, /*are_masks=*/true, has_both, left_out);
  if (num_classes == 0) num_classes = num_mask_classes(config, masks);
  auto source = std::make_shared<MaskedImages>(folders.images, folders.masks, mask_table(config, num_classes),
                                               num_classes, config.ignored_target);
  pair_up(images, masks, *source, left_out);
  source->shrink();
  left_out.check(config);
  if (source->size() == 0)
    throw DataError(fmt::format("'{}' has no image with a mask in '{}'", folders.images, folders.masks));
  return source;
}

DatasetHeader inspect_segmentation(const DataConfig& config) {
  const SegmentationFolders folders = segmentation_folders(config);
  DatasetHeader header;
  header.source = folders.train.images;
  LeftOutFiles left_out;
  const auto train = scan_part(config, folders.train, header.num_outputs, left_out);
  header.train_images = train;
  header.held_bytes = train->held_bytes();
  header.num_train = train->size();
  if (!folders.validation.images.empty()) {
    const auto validation = scan_part(config, folders.validation, header.num_outputs, left_out);
    header.num_validation = validation->size();
    *header.held_bytes += validation->held_bytes();
    header.validation_images = validation;
  }
  header.sample.dtype = DType::u8;
  if (const auto size = train->facts().size) header.sample.shape = Shape{(*size)[0], (*size)[1], config.channels};
  header.target_shape = mask_shape(header.sample.shape);
  for (const std::string& name : config.class_names) header.preprocessing.classes.push_back(escaped(name));
  header.remarks = left_out.remarks();
  return header;
}

}  // namespace

DatasetFormat segmentation_format() {
  DatasetFormat format;
  format.required_files = segmentation_files;
  format.inspect = inspect_segmentation;
  format.held_bytes = holds_nothing;  // of files that are declared, whose names nobody knows
  return format;
}

}  // namespace trainer
