#pragma once

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "engine/config/yaml/source_set.h"

namespace trainer {

/// What the layers of a model are said with before they are written out (Note [Models written out] in
/// engine/config/model/model_expansion.h): uses of blocks, and repeats with `as`.
struct WrittenLayers {
  struct Use {
    std::string path;  ///< "model.layers.3"
    std::string kind;  ///< the block's name, or repeat
  };
  std::map<std::string, std::vector<std::string>, std::less<>> parameters;  ///< by block
  std::map<std::tuple<int, int, int>, Use> uses;                            ///< by source, line and column of the kind

  /// Notes the uses in a list of layers, and in the lists of its layers.
  void add(const Node& list, const std::string& path);
  /// Whether a layer is one of these.
  bool is_use(const Node& layer) const;
};

/// A command-line argument "dotted.key=value", value in YAML, that sets one value of a tree. Components that are
/// numbers are positions in lists; maps on the way are made where absent. A layer goes by its position or name, and its
/// key by the kind and the key or by the key alone: model.layers.1.linear.out, model.layers.hidden.out. Layers in a
/// `sequential` need no more than their path: model.layers.layer1.0.conv1.out. A parameter of one use of a block, and
/// `times` of a repeat with `as`, go by the place where they are written: model.layers.3.bottleneck.width.
class Override {
 public:
  /// Reports what is no such argument, naming it.
  Override(const std::string& argument, SourceSet& sources);

  bool is_valid() const { return is_valid_; }
  const std::string& key() const { return key_; }
  /// Whether it sets what is gone once the list of layers is written out. Only for keys below model.layers.
  bool reaches_use(const Node& layers, const WrittenLayers& written) const;
  /// Reports what cannot be set. Does nothing where the argument is not valid.
  void apply(Node& root, const WrittenLayers* written = nullptr);

 private:
  /// One part of a dotted key, and where it stands in the argument.
  struct Component {
    std::string text;
    Mark mark;
  };

  void report(const Mark& mark, std::string message, std::string expectation = "", std::string suggestion = "");
  Mark mark(std::size_t offset, std::size_t num_bytes) const;
  bool split();
  bool parse_value();
  std::string rest_after(const Component& component) const;
  Node* descend(Node& node, const Component& component, const std::string& path);
  MapEntry& made_entry(Node& node, const Component& component);
  std::string written_path(const Node& layer, const Component& component) const;
  Node* descend_layer(Node& layer, const Component& component, const std::string& path);
  Node* element(Node& list, const Component& component, const std::string& path);

  std::string argument_, key_;
  SourceSet& sources_;
  int source_;
  std::vector<Component> components_;
  std::size_t value_begin_ = 0;
  Node value_;
  bool is_valid_ = false;
  const WrittenLayers* written_ = nullptr;
  bool is_element_ = false;  ///< what was descended to is one of a list
};

}  // namespace trainer
