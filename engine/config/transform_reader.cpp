#include "engine/config/transform_reader.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/config/fields/field_reader.h"
#include "engine/config/fields/transform_fields.h"
#include "engine/config/text/nearest_word.h"
#include "engine/config/text/utf8_text.h"

namespace trainer {
namespace {

class TransformReader {
 public:
  explicit TransformReader(SourceSet& sources) : sources_(sources) {}

  std::optional<TransformSpec> read(const Node& node, const std::string& key) {
    if (node.is_broken) return std::nullopt;
    const bool is_word = node.kind == NodeKind::scalar;
    if (!is_word && (node.kind != NodeKind::map || node.entries.empty())) {
      sources_.report(node.mark, fmt::format("'{}' is not a transform", key),
                      "a name, such as flip, or a name with keys, such as random_crop: {size: 32, padding: 4}");
      return std::nullopt;
    }
    if (!is_word && node.entries.size() > 1) {
      sources_.report(node.entries[1].key_mark, "a transform has one key, its kind",
                      fmt::format("'- ' before each transform, and its own keys in braces or two spaces further in"));
      return std::nullopt;
    }
    const std::string& name = is_word ? node.text : node.entries.front().key;
    const Mark& mark = is_word ? node.mark : node.entries.front().key_mark;
    const TransformKind* const kind = find_transform_kind(name);
    if (kind == nullptr) {
      sources_.report(mark, fmt::format("unknown transform '{}'", shortened(name)),
                      fmt::format("one of {}", fmt::join(transform_kind_names(), ", ")), meant_by(name));
      return std::nullopt;
    }
    TransformSpec transform{kind->name, kind->initial, sources_.location(mark)};
    const Node* const keys = is_word ? nullptr : &node.entries.front().value;
    if (keys != nullptr && keys->kind != NodeKind::map && keys->kind != NodeKind::null) {
      sources_.report(keys->mark, fmt::format("the keys of '{}' are missing", kind->name), kind->example);
      return std::nullopt;
    }
    if (!read_keys(*kind, keys, mark, transform)) return std::nullopt;
    return transform;
  }

 private:
  static std::string meant_by(const std::string& name) {
    for (const TransformKind& kind : transform_kinds())
      if (std::find(kind.synonyms.begin(), kind.synonyms.end(), name) != kind.synonyms.end()) return kind.name;
    return std::string(nearest(name, transform_kind_names()));
  }

  bool read_keys(const TransformKind& kind, const Node* keys, const Mark& mark, TransformSpec& transform) {
    const std::size_t mistakes_before = sources_.num_mistakes();
    GivenKeys given;
    if (keys != nullptr) given = FieldReader(kind.fields, transform, sources_).read(*keys);
    for (const Field<TransformSpec>& field : kind.fields) {
      if (given.has(field.key))
        check_value(field, given.mark(field.key), field.get(transform));
      else if (field.is_required && !given.broken.contains(field.key))
        sources_.report(mark, fmt::format("'{}' needs '{}'", kind.name, field.key), kind.example);
    }
    const auto* const grey = std::get_if<ToGreySpec>(&transform.spec);
    if (grey != nullptr && grey->channels == 2) sources_.report(given.mark("channels"), "'channels' is 2", "1 or 3");
    return sources_.num_mistakes() == mistakes_before;
  }

  /// A list of a transform is one number, from minus which it goes to it, or two, from the first to the second.
  void check_value(const Field<TransformSpec>& field, const Mark& mark, const Value& value) {
    if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&value); integers && integers->size() > 2)
      sources_.report(mark, fmt::format("'{}' has {} elements", field.key, integers->size()),
                      "an integer or [height, width]");
    const auto* const numbers = std::get_if<std::vector<double>>(&value);
    if (numbers == nullptr) return;
    if (numbers->size() > 2)
      sources_.report(mark, fmt::format("'{}' has {} elements", field.key, numbers->size()), "[from, to]");
    else if (numbers->size() == 2 && (*numbers)[0] > (*numbers)[1])
      sources_.report(mark, fmt::format("'{}' goes from the larger to the smaller number", field.key), "[from, to]");
    else if (numbers->size() == 1 && numbers->front() < 0)
      sources_.report(mark, fmt::format("'{}' is negative", field.key), "a number of at least 0, or [from, to]");
  }

  SourceSet& sources_;
};

/// Of a transform behind `earlier`.
void check_place(const TransformSpec& transform, const std::vector<TransformSpec>& earlier, bool of_training,
                 const Mark& mark, SourceSet& sources) {
  const bool is_of_batches = transform.is_of_batches();
  if (is_of_batches && !of_training)
    sources.report(mark, fmt::format("'{}' mixes training batches", transform.kind), "data.transforms.train");
  if (!is_of_batches && !earlier.empty() && earlier.back().is_of_batches())
    sources.report(
        mark,
        fmt::format("'{}' stands behind '{}', which is done to whole batches", transform.kind, earlier.back().kind),
        fmt::format("'{}' last", earlier.back().kind));
  const auto is_same = [&](const TransformSpec& other) { return other.kind == transform.kind; };
  if (is_of_batches && std::any_of(earlier.begin(), earlier.end(), is_same))
    sources.report(mark, fmt::format("'{}' stands there twice", transform.kind), "one");
}

}  // namespace

std::vector<TransformSpec> read_transforms(const Node& node, const std::string& key, bool of_training,
                                           SourceSet& sources) {
  std::vector<TransformSpec> transforms;
  if (node.is_broken) return transforms;
  if (node.kind != NodeKind::sequence || node.items.size() > most_transforms) {
    const std::string what = node.kind == NodeKind::sequence
                                 ? fmt::format("'{}' has {} elements", key, node.items.size())
                                 : fmt::format("'{}' is not a list", key);
    sources.report(
        node.mark, what,
        fmt::format("up to {} transforms, such as [random_crop: {{size: 32, padding: 4}}, flip]", most_transforms));
    return transforms;
  }
  TransformReader reader(sources);
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    auto transform = reader.read(node.items[i], fmt::format("{}.{}", key, i));
    if (!transform) continue;
    check_place(*transform, transforms, of_training, node.items[i].mark, sources);
    transforms.push_back(std::move(*transform));
  }
  return transforms;
}

Node node_of_transforms(const std::vector<TransformSpec>& transforms) {
  Node list;
  if (transforms.empty()) return list;
  list.kind = NodeKind::sequence;
  for (const TransformSpec& transform : transforms) {
    Node keys;
    keys.kind = NodeKind::map;
    for (const auto& field : find_transform_kind(transform.kind)->fields) {
      Node value = node_of(field.get(transform));
      if (value.kind != NodeKind::null) keys.entries.push_back({field.key, {}, std::move(value)});
    }
    Node item;
    item.kind = NodeKind::map;
    item.entries.push_back({transform.kind, {}, std::move(keys)});
    list.items.push_back(std::move(item));
  }
  return list;
}

}  // namespace trainer
