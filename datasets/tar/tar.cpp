#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "datasets/dataset_format.h"
#include "datasets/file_scan.h"
#include "datasets/identity_hash.h"
#include "datasets/image/image_decoder.h"
#include "datasets/image_files.h"
#include "datasets/table/category_table.h"
#include "datasets/table/cell_text.h"
#include "datasets/tar/shard_pattern.h"
#include "datasets/tar/tar_index.h"
#include "engine/config/text/json_input.h"
#include "engine/config/text/utf8_text.h"

// Shards as WebDataset writes them: members of a shard that are called alike up to the first dot of their names are a
// sample, of which one is an image and one says its class: .cls with a number or a name, or .json with a "label".

namespace trainer {
namespace {

constexpr std::uint64_t most_label_bytes = std::uint64_t{1} << 20;
constexpr std::array<std::string_view, 5> image_endings = {"jpg", "jpeg", "png", "webp", "bmp"};

/// An image in a shard, and the text of its label.
struct TarSample {
  std::uint32_t shard = 0;
  TarMember image;
  std::string label;
};

struct TarPart {
  std::vector<std::string> shards;
  std::vector<TarSample> samples;
  std::int64_t num_left_out = 0;  ///< members of no use
};

std::string member_name(const std::string& shard, const TarMember& member) {
  return fmt::format("{}: {}", shard, member.name);
}

std::string trimmed_label(std::string_view text) {
  while (!text.empty() && static_cast<unsigned char>(text.front()) <= ' ') text.remove_prefix(1);
  while (!text.empty() && static_cast<unsigned char>(text.back()) <= ' ') text.remove_suffix(1);
  return std::string(text);
}

/// Members that belong together, while a shard is looked through.
struct SampleMembers {
  const TarMember *image = nullptr, *cls = nullptr, *json = nullptr;
};

class ShardReader {
 public:
  ShardReader(TarPart& part, LeftOutFiles& left_out) : part_(part), left_out_(left_out) {}

  void read(std::uint32_t shard) {
    shard_ = shard;
    const TarIndex index = read_tar_index(part_.shards[shard]);
    part_.num_left_out += index.num_others;
    if (!index.damage.empty()) left_out_.mistakes.push_back(index.damage);
    // A writer puts a sample's members one behind the other.
    SampleMembers members;
    std::string_view key;
    for (const TarMember& member : index.members) {
      const std::size_t slash = member.name.rfind('/');
      const std::size_t begin = slash == std::string::npos ? 0 : slash + 1;
      const std::size_t dot = member.name.find('.', begin);
      const std::string_view its_key = std::string_view(member.name).substr(0, dot);
      if (its_key != key) {
        finish(key, members);
        members = {};
        key = its_key;
      }
      std::string ending = dot == std::string::npos ? "" : member.name.substr(dot + 1);
      std::transform(ending.begin(), ending.end(), ending.begin(),
                     [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
      const bool is_image = std::find(image_endings.begin(), image_endings.end(), ending) != image_endings.end();
      const TarMember*& place = is_image ? members.image : ending == "cls" ? members.cls : members.json;
      if (!is_image && ending != "cls" && ending != "json") {
        ++part_.num_left_out;
      } else if (place != nullptr) {
        left_out_.mistakes.push_back(fmt::format("'{}' has a second {}, '{}'", part_.shards[shard_],
                                                 is_image ? "image of a sample" : "label of a sample", member.name));
      } else {
        place = &member;
      }
    }
    finish(key, members);
  }

 private:
  void finish(std::string_view key, const SampleMembers& members) {
    const std::string& path = part_.shards[shard_];
    if (members.image == nullptr) {
      if (members.cls != nullptr || members.json != nullptr)
        left_out_.mistakes.push_back(fmt::format("'{}' has a label and no image of '{}'", path, key));
      return;
    }
    if (members.cls == nullptr && members.json == nullptr) {
      left_out_.mistakes.push_back(
          fmt::format("'{}' has no label of '{}': no {}.cls or {}.json", path, members.image->name, key, key));
      return;
    }
    try {
      part_.samples.push_back({shard_, *members.image, label_of_members(members)});
    } catch (const DataError& error) {
      left_out_.mistakes.emplace_back(error.what());
    }
  }

  std::string label_of_members(const SampleMembers& members) {
    const TarMember& member = members.cls != nullptr ? *members.cls : *members.json;
    const std::string& path = part_.shards[shard_];
    if (member.place.num_bytes > most_label_bytes)
      throw DataError(
          fmt::format("'{}': '{}' has {} bytes, more than a label has", path, member.name, member.place.num_bytes));
    read_tar_member(path, member.name, member.place, memory_);
    const std::string_view text(reinterpret_cast<const char*>(memory_.data()), memory_.size());
    std::string label;
    if (members.cls != nullptr) {
      label = trimmed_label(text);
    } else {
      const auto json = parse_json<nlohmann::json>(text);
      const bool has_label = json && json->is_object() && json->contains("label");
      if (!has_label) throw DataError(fmt::format("'{}': '{}' has no \"label\"", path, member.name));
      const nlohmann::json& value = (*json)["label"];
      if (!value.is_string() && !value.is_number_integer())
        throw DataError(fmt::format("'{}': the \"label\" of '{}' is no name or number of a class", path, member.name));
      label = value.is_string() ? trimmed_label(value.get_ref<const std::string&>()) : value.dump();
    }
    if (label.empty()) throw DataError(fmt::format("'{}': '{}' is an empty label", path, member.name));
    return label;
  }

  TarPart& part_;
  LeftOutFiles& left_out_;
  std::uint32_t shard_ = 0;
  std::vector<std::byte> memory_;
};

class TarImages final : public ImageSource {
 public:
  explicit TarImages(std::vector<std::string> shards) : shards_(std::move(shards)) {}

  void add(const TarSample& sample, const ImageFileFacts& facts, std::int32_t label) {
    images_.add(sample.image.name, facts);
    places_.push_back({sample.shard, label, sample.image.place});
    crc32_ = add_to_crc32(crc32_, sample.image.name, facts, fmt::format("{}", label));
  }
  void shrink() {
    images_.shrink();
    places_.shrink_to_fit();
  }

  std::int64_t size() const override { return images_.size(); }
  const ImageFacts& facts() const override { return images_.facts(); }
  std::string name_of(std::int64_t index) const override {
    return fmt::format("{}: {}", shards_[place_of(index).shard], images_.name_of(index));
  }
  StoredImage open(std::int64_t index, std::vector<std::byte>& memory) const override {
    const Place& place = place_of(index);
    read_tar_member(shards_[place.shard], images_.path_of(index), place.member, memory);
    return {memory};
  }
  std::uint64_t identity_of(std::int64_t index) const override {
    const Place& place = place_of(index);
    IdentityHash hash;
    hash.add_number(identity_of_file(shards_[place.shard]));
    hash.add_number(place.member.offset);
    hash.add_number(place.member.num_bytes);
    return hash.value();
  }
  void read_target(std::int64_t index, std::byte* target) const override {
    std::memcpy(target, &place_of(index).label, sizeof(std::int32_t));
  }
  /// Of names, sizes and classes.
  std::optional<std::uint32_t> content_crc32() const override { return crc32_; }

  /// Of host memory.
  std::int64_t held_bytes() const {
    std::size_t num_bytes = places_.capacity() * sizeof(Place);
    for (const std::string& shard : shards_) num_bytes += shard.capacity();
    return images_.held_bytes() + static_cast<std::int64_t>(num_bytes);
  }
  std::vector<std::int64_t> class_counts(std::size_t num_classes) const {
    std::vector<std::int64_t> counts(num_classes);
    for (const Place& place : places_) ++counts[static_cast<std::size_t>(place.label)];
    return counts;
  }

 private:
  struct Place {
    std::uint32_t shard = 0;
    std::int32_t label = 0;
    TarPlace member;
  };
  const Place& place_of(std::int64_t index) const { return places_[static_cast<std::size_t>(index)]; }

  std::vector<std::string> shards_;
  ImageFiles images_{""};  ///< names of members
  std::vector<Place> places_;
  std::uint32_t crc32_ = 0;
};

TarPart read_part(const DataConfig& config, const std::string& pattern, LeftOutFiles& left_out) {
  TarPart part;
  part.shards = shards_of(data_path(config, pattern));
  if (part.shards.size() > std::numeric_limits<std::uint32_t>::max()) throw DataError("too many shards");
  ShardReader reader(part, left_out);
  for (std::uint32_t shard = 0; shard < part.shards.size(); ++shard) reader.read(shard);
  left_out.num_other_files += part.num_left_out;
  return part;
}

std::shared_ptr<const TarImages> scan_part_of(const DataConfig& config, const TarPart& part,
                                              const std::vector<std::string>& names, const CategoryTable& table,
                                              LeftOutFiles& left_out) {
  const auto count = static_cast<std::int64_t>(part.samples.size());
  std::vector<ImageFileFacts> found(part.samples.size());
  scan_in_parallel(count, [&]() -> Look {
    const auto decoder = std::make_shared<ImageDecoder>(config.max_pixels);
    const auto memory = std::make_shared<std::vector<std::byte>>();
    return [&, decoder, memory](std::int64_t i) {
      const TarSample& sample = part.samples[static_cast<std::size_t>(i)];
      found[static_cast<std::size_t>(i)] = look_at_image(
          member_name(part.shards[sample.shard], sample.image), *decoder, *memory, [&](std::uint64_t most_bytes) {
            read_tar_member(part.shards[sample.shard], sample.image.name, sample.image.place, *memory, most_bytes);
            return sample.image.place.num_bytes;
          });
    };
  });
  auto images = std::make_shared<TarImages>(part.shards);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const TarSample& sample = part.samples[i];
    if (!found[i].is_image) {
      left_out.mistakes.push_back(found[i].mistake);
      continue;
    }
    std::optional<std::int32_t> label = table.find(sample.label);
    if (!config.class_names.empty()) {
      const auto at = std::find(names.begin(), names.end(), sample.label);
      label = at == names.end() ? std::nullopt : std::optional(static_cast<std::int32_t>(at - names.begin()));
      if (!label) continue;
    }
    if (!label)
      throw DataError(fmt::format("'{}': the label '{}' is that of no training image",
                                  member_name(part.shards[sample.shard], sample.image),
                                  escaped(shortened_cell(sample.label))));
    images->add(sample, found[i], *label);
  }
  images->shrink();
  left_out.check(config);
  if (images->size() == 0)
    throw DataError(fmt::format("'{}' has no image with a label that can be used", part.shards.front()));
  return images;
}

std::vector<std::string> tar_files(const DataConfig& config) {
  std::vector<std::string> needed = shards_of(data_path(config, config.train));
  if (!config.validation.empty())
    for (std::string& shard : shards_of(data_path(config, config.validation))) needed.push_back(std::move(shard));
  return needed;
}

DatasetHeader inspect_tar(const DataConfig& config) {
  LeftOutFiles left_out;
  const TarPart train = read_part(config, config.train, left_out);
  left_out.check(config);
  if (train.samples.empty())
    throw DataError(fmt::format("'{}' has no sample: an image and a label of one name", train.shards.front()));
  std::set<std::string> labels;
  for (const TarSample& sample : train.samples) labels.insert(sample.label);
  const CategoryTable table({labels.begin(), labels.end()});
  const std::vector<std::string> names = config.class_names.empty() ? table.names() : config.class_names;

  DatasetHeader header;
  header.source = train.shards.front();
  const auto images = scan_part_of(config, train, names, table, left_out);
  const std::vector<std::int64_t> counts = images->class_counts(names.size());
  for (std::size_t label = 0; label < counts.size(); ++label)
    if (counts[label] == 0)
      throw data_config_error(config, fmt::format("no training image has the label '{}'", escaped(names[label])),
                              "labels of the shards in data.class_names, each once");
  header.train_images = images;
  header.held_bytes = images->held_bytes();
  header.num_train = images->size();
  if (!config.validation.empty()) {
    const auto validation =
        scan_part_of(config, read_part(config, config.validation, left_out), names, table, left_out);
    header.validation_images = validation;
    *header.held_bytes += validation->held_bytes();
    header.num_validation = validation->size();
  }
  header.sample.dtype = DType::u8;
  if (const auto size = images->facts().size) header.sample.shape = Shape{(*size)[0], (*size)[1], config.channels};
  header.num_outputs = static_cast<std::int64_t>(names.size());
  for (const std::string& name : names) header.preprocessing.classes.push_back(escaped(name));
  header.remarks = left_out.remarks();
  return header;
}

}  // namespace

DatasetFormat tar_format() {
  DatasetFormat format;
  format.required_files = tar_files;
  format.inspect = inspect_tar;
  format.held_bytes = holds_nothing;  // of files that are declared, whose names nobody knows
  return format;
}

}  // namespace trainer
