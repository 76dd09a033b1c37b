#include "engine/config/fields/name_map_fields.h"

#include <fmt/format.h>

#include <utility>

#include "engine/config/fields/field_reader.h"
#include "engine/config/fields/node_field.h"

namespace trainer {
namespace {

void read_maps(Experiment& experiment, const Node& node, SourceSet& sources) {
  experiment.maps.clear();
  if (node.kind != NodeKind::map) {
    sources.report(node.mark, "'model.maps' is not a map", expectation_of(maps_of_names()));
    return;
  }
  for (const MapEntry& entry : node.entries) {
    NameMap map;
    map.name = entry.key;
    map.location = sources.location(entry.key_mark);
    if (entry.value.kind == NodeKind::map)
      FieldReader(name_map_fields(), map, sources).read(entry.value);
    else if (entry.value.kind != NodeKind::null)
      sources.report(entry.value.mark, fmt::format("'{}' is no map of names", entry.key),
                     "some of rename, transpose, ignore, save, three_axes");
    experiment.maps.push_back(std::move(map));
  }
}

Node node_of_maps(const Experiment& experiment) {
  Node maps;
  if (experiment.maps.empty()) return maps;
  maps.kind = NodeKind::map;
  for (const NameMap& map : experiment.maps) {
    Node keys;
    keys.kind = NodeKind::map;
    for (const Field<NameMap>& field : name_map_fields())
      if (Node value = node_of(field.get(map)); value.kind != NodeKind::null)
        keys.entries.push_back({field.key, {}, std::move(value)});
    maps.entries.push_back({map.name, {}, std::move(keys)});
  }
  return maps;
}

}  // namespace

const std::vector<Field<NameMap>>& name_map_fields() {
  static const std::vector<Field<NameMap>> fields = {
      field<NameMap>(
          "rename", [](auto& map) -> auto& { return map.rename; }, rewrites(), "As `weights.rename`"),
      field<NameMap>(
          "transpose", [](auto& map) -> auto& { return map.transpose; }, tensor_names(), "As `weights.transpose`"),
      field<NameMap>(
          "ignore", [](auto& map) -> auto& { return map.ignore; }, tensor_names(), "As `weights.ignore`"),
      field<NameMap>(
          "save", [](auto& map) -> auto& { return map.save; }, rewrites(),
          "What `export` makes of the model's names, as `weights.rename` of a file's; needed where `rename` cannot be "
          "undone, since several names become one")
          .defaults_to("`rename` backwards"),
      field<NameMap>(
          "three_axes", [](auto& map) -> auto& { return map.three_axes; }, tensor_names(),
          "Tensors, by the model's names, that the files have with axes of length 1 in front, three in all")};
  return fields;
}

ExperimentField maps_field() {
  return node_field<Experiment>(
      "model.maps", maps_of_names(),
      "How tensors are called and lie in files of others, by name, for `weights.map` and `export --names`: maps of "
      "`rename`, `transpose`, `ignore`, as those of `weights`; `save`, rewrites of the model's names, where `rename` "
      "cannot be undone; `three_axes`, names of what has axes of length 1 in front there",
      [](Experiment& experiment) { experiment.maps.clear(); }, read_maps, node_of_maps);
}

}  // namespace trainer
