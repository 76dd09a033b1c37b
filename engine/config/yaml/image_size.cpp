#include "engine/config/yaml/image_size.h"

#include <algorithm>
#include <array>
#include <utility>

namespace trainer {
namespace {

constexpr std::array<std::string_view, 4> sized_transforms = {"resize", "center_crop", "random_crop",
                                                              "random_resized_crop"};

Node map_of(std::string key, Node value, const Mark& mark) {
  Node map;
  map.kind = NodeKind::map;
  map.mark = mark;
  map.entries.push_back({std::move(key), mark, std::move(value)});
  return map;
}

/// Gives a transform the size, where it needs one: `random_crop`, or `random_crop: {padding: 4}`. Whether it took it.
bool give_size(Node& transform, const Node& size) {
  const bool is_word = transform.kind == NodeKind::scalar;
  if (!is_word && (transform.kind != NodeKind::map || transform.entries.size() != 1)) return false;
  const std::string name = is_word ? transform.text : transform.entries.front().key;
  if (std::find(sized_transforms.begin(), sized_transforms.end(), name) == sized_transforms.end()) return false;
  if (is_word) {
    transform = map_of(name, map_of("size", size, transform.mark), transform.mark);
    return true;
  }
  Node& keys = transform.entries.front().value;
  if (keys.kind == NodeKind::null) {
    keys = map_of("size", size, transform.entries.front().key_mark);
    return true;
  }
  if (keys.kind != NodeKind::map || keys.find("size") != nullptr) return false;
  keys.entries.push_back({"size", transform.entries.front().key_mark, size});
  return true;
}

/// Both sides, so that all images become alike.
Node both_sides(const Node& size) {
  if (size.kind != NodeKind::scalar) return size;
  Node sides;
  sides.kind = NodeKind::sequence;
  sides.mark = size.mark;
  sides.items = {size, size};
  return sides;
}

}  // namespace

void give_image_size(Node& root, ReferenceResolver& resolver, SourceSet& sources) {
  Node* const data = root.find("data");
  Node* const found = data == nullptr || data->kind != NodeKind::map ? nullptr : data->find("size");
  if (found == nullptr) return;
  const Node size = *found;
  std::erase_if(data->entries, [](const MapEntry& entry) { return entry.key == "size"; });
  if (size.kind == NodeKind::null) return;
  resolver.keep("data.size", size);
  Node* transforms = data->find("transforms");
  if (transforms == nullptr || transforms->kind == NodeKind::null) {
    std::erase_if(data->entries, [](const MapEntry& entry) { return entry.key == "transforms"; });
    Node empty;
    empty.kind = NodeKind::map;
    empty.mark = size.mark;
    data->entries.push_back({"transforms", size.mark, std::move(empty)});
    transforms = &data->entries.back().value;
  }
  if (transforms->kind != NodeKind::map) return;
  bool is_taken = false;
  for (const char* const use : {"train", "validation"}) {
    Node* const list = transforms->find(use);
    if (list != nullptr && list->kind == NodeKind::sequence) {
      for (Node& transform : list->items) is_taken = give_size(transform, size) || is_taken;
      continue;
    }
    if (list != nullptr && list->kind != NodeKind::null) continue;  // a mistake, which is told
    Node resized;
    resized.kind = NodeKind::sequence;
    resized.mark = size.mark;
    resized.items.push_back(map_of("resize", map_of("size", both_sides(size), size.mark), size.mark));
    std::erase_if(transforms->entries, [&](const MapEntry& entry) { return entry.key == use; });
    transforms->entries.push_back({use, size.mark, std::move(resized)});
    is_taken = true;
  }
  if (!is_taken)
    sources.report(size.mark, "no transform takes 'data.size': each has a size of its own, or needs none",
                   "random_resized_crop, random_crop, center_crop or resize without a size");
}

}  // namespace trainer
