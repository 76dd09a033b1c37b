#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/config/experiment.h"
#include "engine/config/model/block.h"
#include "engine/config/yaml/override.h"
#include "engine/config/yaml/references.h"
#include "engine/config/yaml/source_set.h"

namespace trainer {

// Note [Models written out]
// ~~~~~~~~~~~~~~~~~~~~~~~~~
// A model may be said with less than all of its layers: by a file with parameters (`model.file`, `model.with`), by
// blocks
// (`model.blocks`), by `when`, which leaves a layer out, and by `repeat` with `as`, whose copies stand in the list
// where it stands, each with its number. All of that is written out on the tree, before any of it is read as layers, so
// that what comes after knows layers alone: the graph, the plan, the resolved configuration, and overrides, which reach
// into what was written out.
//
// A use of a block becomes `sequential: {layers: […]}` with the use's `name`, `from` and `share`, so that parameters
// are called
// `<name or position>.<path in the block>`. A block sees its own parameters, those of the model's file, and all keys of
// the configuration; not those of the block that uses it. Marks of what stands in a block know who used it
// (SourceSet::add_use). Work is counted (most_nodes, most_scalar_bytes), also where it leaves nothing behind.

// Note [Maps of names]
// ~~~~~~~~~~~~~~~~~~~~
// A model, or its file, may say how its tensors are called, and lie, in files of others: `maps: {hub: {rename: …,
// transpose: …, ignore: …}}`, keys of `weights` under a name. `weights.map: hub` takes them. They are not taken
// unasked, since a file that trainer wrote has the model's own names and order. One map is for files that differ in
// what they hold besides, so what it renames and ignores need not be there: it also gives `weights.optional`.
//
// A model that was trained is written under those names again (engine/train/files/exported_weights.h), so maps stay in
// the resolved configuration, as `model.maps`. What many names are made of, as by `^(?:model\.)?`, does not tell which
// of them to write: then the map says it, by `save`, over the model's names.

/// Whether `model` says something that is to be written out. Else the tree is left as it is.
bool needs_expansion(const Node& root);

/// Writes out the networks that losses compare by (`loss.network`), which are said as models are.
void expand_loss_networks(Node& root, const std::string& config_path, SourceSet& sources, ReferenceResolver& resolver);

class ModelExpansion {
 public:
  /// A file that the configuration names is sought beside `config_path`, then below configs/. `key` is what messages
  /// call the model, `path` what references do.
  ModelExpansion(Node& root, std::string config_path, SourceSet& sources, ReferenceResolver& resolver,
                 std::string key = "model", std::string path = "model")
      : root_(root),
        config_path_(std::move(config_path)),
        sources_(sources),
        resolver_(resolver),
        key_(std::move(key)),
        path_(std::move(path)) {}

  /// Leaves `model.layers` and the keys that are not of this. Reports what is wrong. Of `overrides`, which reach into
  /// layers, those that set what is gone then are applied before, and taken out.
  void expand(std::vector<Override*>& overrides);
  /// The same for blocks, `when` and `as` in layers that were set since.
  void expand_again();
  /// Puts what `weights.map` stands for into `weights`, where that does not say otherwise: Note [Maps of names].
  void apply_map();
  /// Parameters of the file, as they were given values, and the defaults of the configuration's blocks.
  const std::vector<IntegerParameter>& integer_parameters() const { return integer_parameters_; }
  /// As they were read.
  const WrittenLayers& written() const { return written_; }

 private:
  /// Where layers are written out: the names they see, the use they stand in, and how deep the list lies in the tree.
  struct Place {
    const Scope* scope = nullptr;
    int use = 0;
    std::size_t depth = 0;
  };

  void read_config_blocks(Node& model);
  void read_file(const Node& file, Node with, std::vector<Override*>& overrides);
  void set_in_uses(Node& layers, std::vector<Override*>& overrides);
  std::string path_of(const Node& file);
  void put_layers(const Node& layers);
  /// Moves the file's maps to `model.maps`; one that is there already goes before its namesake.
  void put_maps();
  /// Moves the file's groups to `model.groups`, where that is not given.
  void put_groups();

  void expand_list(const Node& list, const Place& place, std::vector<Node>& out);
  void expand_item(const Node& item, const Place& place, std::vector<Node>& out);
  void expand_layer(const Node& item, const Place& place, std::vector<Node>& out);
  void use_block(const ModelBlock& block, const Mark& mark, const Node* keys, const Place& place,
                 std::vector<Node>& out);
  void unroll(const MapEntry& repeat, const Place& place, std::vector<Node>& out);
  bool is_there(const Node& keys, const Place& place);
  bool bind(const std::vector<ModelParameter>& parameters, const std::string& owner, const Node* given, bool is_use,
            const Mark& mark, const Place& caller, int use, Scope& scope);
  void report_unknown(const std::string& name, const Mark& mark);

  /// A copy with its references resolved and its marks in the use.
  Node resolved(const Node& node, const Place& place);
  /// One for each value of `with` that an argument gives, of which the last is returned: 0 where there is none.
  int uses_of_arguments(const Node& with);
  void note_integer(std::string key, const std::string& text, const ModelParameter& parameter);
  static Mark marked(Mark mark, int use);
  void count(std::size_t num_bytes, const Mark& mark);

  Node& root_;
  std::string config_path_;
  SourceSet& sources_;
  ReferenceResolver& resolver_;
  const std::string key_, path_;
  Node blocks_node_, file_;  ///< what the blocks point into; `maps` and `groups` are in the file
  std::map<std::string, ModelBlock> blocks_;
  WrittenLayers written_;
  Scope scope_;  ///< the parameters of the file
  std::vector<IntegerParameter> integer_parameters_;
  int use_ = 0;                   ///< of the file
  std::vector<std::string> way_;  ///< the blocks that are being written out
  bool is_recursive_ = false;     ///< a block uses itself, which was reported
  std::size_t num_nodes_ = 0, num_bytes_ = 0;
};

}  // namespace trainer
