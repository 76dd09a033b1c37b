#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <set>

#include "datasets/dataset_format.h"
#include "datasets/image_list/list_entries.h"
#include "datasets/labelled_images.h"
#include "datasets/table/category_table.h"
#include "datasets/table/cell_text.h"
#include "datasets/table/number_notation.h"
#include "engine/config/text/utf8_text.h"

// Images that a table or JSON Lines name, each with a class, several classes, or numbers.

namespace trainer {
namespace {

namespace fs = std::filesystem;

bool has_several_labels(const DataConfig& config) { return config.target_type == TaskTarget::multi_label; }

/// The labels of a row of several.
std::vector<std::string_view> labels_of(const DataConfig& config, const ListEntries& list, std::int64_t row) {
  std::vector<std::string_view> labels;
  const std::string& separator = config.label_separator;
  for (std::string_view text : list.targets(row)) {
    for (std::size_t end = 0; end != std::string_view::npos;) {
      end = separator.empty() ? std::string_view::npos : text.find(separator);
      std::string_view label = text.substr(0, end);
      while (!label.empty() && label.front() == ' ') label.remove_prefix(1);
      while (!label.empty() && label.back() == ' ') label.remove_suffix(1);
      if (!label.empty()) labels.push_back(label);
      if (end != std::string_view::npos) text.remove_prefix(end + separator.size());
    }
  }
  return labels;
}

std::string_view label_of(const ListEntries& list, std::int64_t row) {
  const std::vector<std::string_view> texts = list.targets(row);
  if (texts.size() != 1)
    throw list.error(row,
                     fmt::format("{} labels, expected one; data.target_type: multi_label takes several", texts.size()));
  if (texts.front().empty()) throw list.error(row, "no label");
  return texts.front();
}

/// The classes of a list of training images in the order of their numbers, and what stands for each.
class ListClasses {
 public:
  ListClasses(const DataConfig& config, const ListEntries& list) : config_(config) {
    if (!config.class_names.empty()) {
      names_ = config.class_names;
      if (std::set<std::string>(names_.begin(), names_.end()).size() < names_.size())
        throw data_config_error(config, "data.class_names has a name twice");
      return;
    }
    std::set<std::string, std::less<>> labels;
    const auto note = [&](std::int64_t row, std::string_view label) {
      if (labels.contains(label)) return;
      labels.emplace(label);
      if (static_cast<std::int64_t>(labels.size()) > most_classes)
        throw list.error(
            row, fmt::format("more than {} different labels; data.target_type: numeric takes numbers", most_classes));
    };
    for (std::int64_t row = 0; row < list.size(); ++row) {
      if (has_several_labels(config))
        for (const std::string_view label : labels_of(config, list, row)) note(row, label);
      else
        note(row, label_of(list, row));
    }
    if (labels.empty()) throw DataError(fmt::format("{}: no image has a label", list.file()));
    table_ = CategoryTable({labels.begin(), labels.end()});
    names_ = table_.names();
  }

  std::int64_t size() const { return static_cast<std::int64_t>(names_.size()); }
  const std::vector<std::string>& names() const { return names_; }
  /// Nothing for a label that data.class_names leaves out. DataError for one that no training image has.
  std::optional<std::int32_t> find(const ListEntries& list, std::int64_t row, std::string_view label) const {
    if (!config_.class_names.empty()) {
      const auto found = std::find(names_.begin(), names_.end(), label);
      return found == names_.end() ? std::nullopt : std::optional(static_cast<std::int32_t>(found - names_.begin()));
    }
    const auto found = table_.find(label);
    if (!found)
      throw list.error(row, fmt::format("the label '{}' is that of no training image", escaped(shortened_cell(label))));
    return found;
  }

 private:
  static constexpr std::int64_t most_classes = 100'000;

  const DataConfig& config_;
  CategoryTable table_;
  std::vector<std::string> names_;
};

float number_of(const DataConfig& config, const ListEntries& list, std::int64_t row, std::string_view text) {
  const std::optional<double> number = number_in(text);
  if (!number || std::abs(*number) > static_cast<double>(std::numeric_limits<float>::max())) {
    const std::string_view odd = odd_notation(text);
    throw list.error(row, fmt::format("'{}', expected a number{}{}", escaped(shortened_cell(text)),
                                      odd.empty() ? "" : ": it ", odd));
  }
  if (config.targets_are_probabilities && (*number < 0 || *number > 1))
    throw list.error(row, fmt::format("{}, expected 0 to 1, as loss: bce_with_logits takes", *number));
  return static_cast<float>(*number);
}

/// A list and what is made of it.
struct ListPart {
  std::shared_ptr<const ImageSource> images;
  std::int64_t held_bytes = 0;
};

class ListScan {
 public:
  ListScan(const DataConfig& config, LeftOutFiles& left_out) : config_(config), left_out_(left_out) {}

  /// `target_of` writes the numbers of a row's target, or says that the row is left out.
  template <typename Target, typename TargetOf>
  ListPart scan(const ListEntries& list, std::int64_t numbers, const TargetOf& target_of) {
    const std::string folder = folder_of(list);
    PathList paths;
    std::vector<std::int64_t> rows;
    std::vector<Target> targets, target(static_cast<std::size_t>(numbers));
    for (std::int64_t row = 0; row < list.size(); ++row) {
      std::fill(target.begin(), target.end(), Target{});
      if (!target_of(row, target)) {
        ++num_other_labels_;
        continue;
      }
      paths.add(list.path(row));
      rows.push_back(row);
      targets.insert(targets.end(), target.begin(), target.end());
    }
    std::vector<ImageFileFacts> files = look_at_images(folder, paths, config_.max_pixels, FileNames::listed);
    auto images = std::make_shared<LabelledImages<Target>>(folder, numbers);
    for (std::size_t i = 0; i < files.size(); ++i) {
      if (files[i].is_image)
        images->add(paths[static_cast<std::int64_t>(i)], files[i], targets.data() + i * target.size());
      else
        left_out_.mistakes.push_back(fmt::format("{}: {}", list.place(rows[i]), files[i].mistake));
    }
    images->shrink();
    left_out_.check(config_);
    if (images->size() == 0) throw DataError(fmt::format("{}: no image that it lists can be used", list.file()));
    return {images, images->held_bytes()};
  }

  std::vector<std::string> remarks() const {
    std::vector<std::string> remarks = left_out_.remarks();
    if (num_other_labels_ > 0)
      remarks.push_back(
          fmt::format("rows whose label is none of data.class_names are left out: {} of them", num_other_labels_));
    return remarks;
  }

 private:
  /// Paths are below data.root, else below the folder of the list.
  std::string folder_of(const ListEntries& list) const {
    return config_.root.empty() ? fs::path(list.file()).parent_path().string() : config_.root;
  }

  const DataConfig& config_;
  LeftOutFiles& left_out_;
  std::int64_t num_other_labels_ = 0;
};

std::vector<std::string> image_list_files(const DataConfig& config) {
  std::vector<std::string> needed = {data_path(config, config.train)};
  if (!config.validation.empty()) needed.push_back(data_path(config, config.validation));
  return needed;
}

void check_class_counts(const DataConfig& config, const ListClasses& classes, const ImageSource& images) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(classes.size()));
  for (std::int64_t i = 0; i < images.size(); ++i) {
    std::int32_t label = 0;
    images.read_target(i, reinterpret_cast<std::byte*>(&label));
    ++counts[static_cast<std::size_t>(label)];
  }
  for (std::size_t label = 0; label < counts.size(); ++label)
    if (counts[label] == 0)
      throw data_config_error(config,
                              fmt::format("no training image has the label '{}'", escaped(classes.names()[label])),
                              "labels of the list in data.class_names");
}

DatasetHeader inspect_image_list(const DataConfig& config) {
  const ListEntries train = read_list(config, data_path(config, config.train), nullptr);
  std::optional<ListEntries> validation;
  if (!config.validation.empty()) validation = read_list(config, data_path(config, config.validation), &train);

  DatasetHeader header;
  header.source = train.file();
  LeftOutFiles left_out;
  ListScan scan(config, left_out);
  const auto scan_parts = [&](const auto& scan_part) {
    const ListPart part = scan_part(train);
    header.train_images = part.images;
    header.held_bytes = part.held_bytes;
    header.num_train = part.images->size();
    if (!validation) return;
    const ListPart of_validation = scan_part(*validation);
    header.validation_images = of_validation.images;
    *header.held_bytes += of_validation.held_bytes;
    header.num_validation = of_validation.images->size();
  };
  header.categorical = is_categorical(config);
  if (config.target_type == TaskTarget::numeric) {
    header.num_outputs = static_cast<std::int64_t>(train.targets(0).size());
    scan_parts([&](const ListEntries& list) {
      return scan.scan<float>(list, header.num_outputs, [&](std::int64_t row, std::vector<float>& target) {
        const std::vector<std::string_view> texts = list.targets(row);
        if (texts.size() != target.size())
          throw list.error(row,
                           fmt::format("{} numbers, expected {} as in the first row", texts.size(), target.size()));
        for (std::size_t i = 0; i < texts.size(); ++i) target[i] = number_of(config, list, row, texts[i]);
        return true;
      });
    });
  } else {
    const ListClasses classes(config, train);
    header.num_outputs = classes.size();
    for (const std::string& name : classes.names()) header.preprocessing.classes.push_back(escaped(name));
    if (has_several_labels(config)) {
      scan_parts([&](const ListEntries& list) {
        return scan.scan<float>(list, classes.size(), [&](std::int64_t row, std::vector<float>& target) {
          for (const std::string_view label : labels_of(config, list, row))
            if (const auto found = classes.find(list, row, label)) target[static_cast<std::size_t>(*found)] = 1;
          return true;
        });
      });
    } else {
      scan_parts([&](const ListEntries& list) {
        return scan.scan<std::int32_t>(list, 1, [&](std::int64_t row, std::vector<std::int32_t>& target) {
          const auto found = classes.find(list, row, label_of(list, row));
          if (found) target.front() = *found;
          return found.has_value();
        });
      });
      check_class_counts(config, classes, *header.train_images);
    }
  }
  header.sample.dtype = DType::u8;
  if (const auto size = header.train_images->facts().size)
    header.sample.shape = Shape{(*size)[0], (*size)[1], config.channels};
  header.remarks = scan.remarks();
  return header;
}

}  // namespace

DatasetFormat image_list_format() {
  DatasetFormat format;
  format.numeric_targets = true;
  format.required_files = image_list_files;
  format.inspect = inspect_image_list;
  format.held_bytes = holds_nothing;  // of files that are declared, whose names nobody knows
  return format;
}

}  // namespace trainer
