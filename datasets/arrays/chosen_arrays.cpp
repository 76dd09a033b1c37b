#include "datasets/arrays/chosen_arrays.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <vector>

#include "datasets/dataset_format.h"
#include "engine/config/text/nearest_word.h"
#include "engine/config/text/utf8_text.h"

namespace trainer {
namespace {

constexpr std::size_t most_arrays_listed = 12;

constexpr std::string_view usual_input_names[] = {"x",        "image", "images", "img",  "imgs",    "feature",
                                                  "features", "input", "inputs", "data", "samples", "pixels"};
constexpr std::string_view usual_target_names[] = {"y",     "label",   "labels", "target", "targets",
                                                   "class", "classes", "mask",   "masks"};

/// Of one part of the data: its keys, as messages name them.
struct ArrayKeys {
  const char* labels;  ///< data.train_labels
  const char* input;   ///< in data.fields
  const char* target;
};
constexpr ArrayKeys train_array_keys = {"data.train_labels", "input", "target"};
constexpr ArrayKeys validation_array_keys = {"data.validation_labels", "validation_input", "validation_target"};

std::string listed_arrays(const std::vector<StoredArray>& arrays) {
  std::string text;
  for (std::size_t i = 0; i < std::min(arrays.size(), most_arrays_listed); ++i)
    text += fmt::format("{}{} {}", i > 0 ? ", " : "", shortened(arrays[i].name), printable(arrays[i].type));
  if (arrays.size() > most_arrays_listed) text += fmt::format(" and {} more", arrays.size() - most_arrays_listed);
  return text;
}

/// Without the words that tell training from validation: "x" of "X_train".
std::string usual_array_name(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const std::string_view part : {"train", "test", "val", "valid", "validation"}) {
    if (name.size() > part.size() + 1 && name.ends_with(part) && name[name.size() - part.size() - 1] == '_')
      return name.substr(0, name.size() - part.size() - 1);
    if (name.size() > part.size() + 1 && name.starts_with(part) && name[part.size()] == '_')
      return name.substr(part.size() + 1);
  }
  return name;
}

bool is_among(std::span<const std::string_view> names, const StoredArray& array) {
  return std::find(names.begin(), names.end(), usual_array_name(array.name)) != names.end();
}

/// Finds the arrays of one part of the data.
class ArrayChoice {
 public:
  ArrayChoice(const DataConfig& config, const ArrayKeys& keys) : config_(config), keys_(keys) {}

  ChosenArrays of_one_file(const std::string& path, const std::string& input, const std::string& target) const {
    const OpenArrayFile open = open_array_file(path);
    if (open.arrays.size() == 1 && open.arrays[0].name.empty())
      throw data_config_error(config_, fmt::format("'{}' is one array, and {} is missing", path, keys_.labels),
                              "the .npy file of the targets");
    const StoredArray* of_input = input.empty() ? nullptr : &named(open, input);
    const StoredArray* of_target = target.empty() ? nullptr : &named(open, target);
    if (open.arrays.size() == 2) {
      const auto other = [&](const StoredArray* one) { return &open.arrays[one == &open.arrays[0] ? 1 : 0]; };
      if (of_input == nullptr && of_target == nullptr) {
        for (const StoredArray& array : open.arrays) {
          if (is_among(usual_input_names, array) && is_among(usual_target_names, *other(&array))) of_input = &array;
        }
      }
      if (of_input != nullptr && of_target == nullptr) of_target = other(of_input);
      if (of_target != nullptr && of_input == nullptr) of_input = other(of_target);
    }
    if (of_input == nullptr || of_target == nullptr)
      throw data_config_error(config_,
                              fmt::format("which arrays of '{}' are samples and targets is not said; it holds {}", path,
                                          listed_arrays(open.arrays)),
                              fmt::format("data.fields: {{{}: NAME, {}: NAME}}", keys_.input, keys_.target));
    if (of_input == of_target)
      throw data_config_error(config_, fmt::format("'{}' is samples and targets at once", shortened(of_input->name)),
                              "two arrays");
    return {source(open, *of_input), source(open, *of_target)};
  }

  /// The only array, one of those names, or the only one that samples are usually called.
  ArraySource of_samples(const std::string& path, std::span<const std::string> names) const {
    const OpenArrayFile open = open_array_file(path);
    if (open.arrays.size() == 1) return source(open, open.arrays[0]);
    for (const std::string& name : names)
      for (const StoredArray& array : open.arrays)
        if (!name.empty() && array.name == name) return source(open, array);
    const StoredArray* usual = nullptr;
    for (const StoredArray& array : open.arrays) {
      if (!is_among(usual_input_names, array)) continue;
      if (usual != nullptr) return alone(path, "", keys_.input);  // which tells what there is
      usual = &array;
    }
    return usual != nullptr ? source(open, *usual) : alone(path, "", keys_.input);
  }

  /// The array of that name, or the only one.
  ArraySource alone(const std::string& path, const std::string& name, const char* key) const {
    const OpenArrayFile open = open_array_file(path);
    if (!name.empty()) return source(open, named(open, name));
    if (open.arrays.size() == 1) return source(open, open.arrays[0]);
    throw data_config_error(
        config_, fmt::format("which array of '{}' is meant is not said; it holds {}", path, listed_arrays(open.arrays)),
        fmt::format("data.fields: {{{}: NAME}}", key));
  }

 private:
  const StoredArray& named(const OpenArrayFile& open, const std::string& name) const {
    std::vector<std::string> names;
    for (const StoredArray& array : open.arrays) {
      if (array.name == name) return array;
      names.push_back(array.name);
    }
    if (names.size() == 1 && names[0].empty())
      throw data_config_error(config_,
                              fmt::format("'{}' is one array without a name, and data.fields names '{}'",
                                          open.file->path(), shortened(name)),
                              "no name for it");
    const std::string_view meant = nearest(name, names);
    throw data_config_error(config_,
                            fmt::format("'{}' has no array '{}'; it holds {}", open.file->path(), shortened(name),
                                        listed_arrays(open.arrays)),
                            meant.empty() ? "one of these names" : fmt::format("'{}'?", shortened(meant)));
  }

  static ArraySource source(const OpenArrayFile& open, const StoredArray& array) {
    if (!array.refusal.empty())
      throw array_error(array.name.empty() ? open.file->path() : fmt::format("{}, '{}'", open.file->path(), array.name),
                        fmt::format("{}: {}", array.type, array.refusal));
    return {open.file, array};
  }

  const DataConfig& config_;
  const ArrayKeys& keys_;
};

ChosenArrays choose_arrays(const DataConfig& config, const ArrayKeys& keys, const ArrayPaths& paths,
                           const std::string& input, const std::string& target) {
  const ArrayChoice choice(config, keys);
  if (paths.input == paths.target) return choice.of_one_file(paths.input, input, target);
  return {choice.alone(paths.input, input, keys.input), choice.alone(paths.target, target, keys.target)};
}

/// A name of training's, where validation has none of its own and its file holds such an array.
std::string name_if_there(const DataConfig& config, const std::string& path, const std::string& own,
                          const std::string& of_train) {
  // In training's own file that name is training's array.
  if (!own.empty() || of_train.empty() || config.validation.empty()) return own;
  const std::vector<StoredArray> arrays = open_array_file(path).arrays;
  const bool is_there =
      std::any_of(arrays.begin(), arrays.end(), [&](const StoredArray& array) { return array.name == of_train; });
  return is_there ? of_train : "";
}

}  // namespace

ArrayPaths train_array_paths(const DataConfig& config) {
  if (config.train.empty())
    throw data_config_error(config, "data.train is missing", "a .npy, .npz or safetensors file");
  return {data_path(config, config.train),
          data_path(config, config.train_labels.empty() ? config.train : config.train_labels)};
}

std::optional<ArrayPaths> validation_array_paths(const DataConfig& config) {
  const bool is_in_train_file = !config.validation_input.empty() || !config.validation_target.empty();
  if (config.validation.empty() && !is_in_train_file) return std::nullopt;
  if (config.validation.empty()) return train_array_paths(config);
  return ArrayPaths{data_path(config, config.validation),
                    data_path(config, config.validation_labels.empty() ? config.validation : config.validation_labels)};
}

ChosenArrays choose_train_arrays(const DataConfig& config) {
  return choose_arrays(config, train_array_keys, train_array_paths(config), config.train_input, config.train_target);
}

ChosenArrays choose_validation_arrays(const DataConfig& config, const ArrayPaths& paths) {
  return choose_arrays(config, validation_array_keys, paths,
                       name_if_there(config, paths.input, config.validation_input, config.train_input),
                       name_if_there(config, paths.target, config.validation_target, config.train_target));
}

ArraySource choose_prediction_array(const DataConfig& config, const std::string& path) {
  const std::array names = {config.validation_input, config.train_input};
  return ArrayChoice(config, train_array_keys).of_samples(path, names);
}

}  // namespace trainer
