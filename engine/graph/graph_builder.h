#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/graph/trained_layers.h"

namespace trainer {

// Note [Shared parameters]
// ~~~~~~~~~~~~~~~~~~~~~~~~
// A layer, or a list of them, may use the parameters of an earlier one: layers that are built at or below a path
// between begin_sharing() and end_sharing() take those of the layer that stands in the same place at or below the
// owner. So a parameter has one value, which several ops read; it is counted, started, saved and updated once, under
// its owner's name, and under mixed precision has one 16-bit copy.
//
// Its gradient is the sum of those of its uses, each widened first where gradients are kept in f32: a use's is a
// temporary, "<layer>.weight.grad.partial", and the sum alone is "<owner>.weight.grad", of the category `gradient`.
// What else asks for the gradient of a parameter (updates, accumulation, clipping, recomputation) knows the sum alone.
// The owner comes first in the forward pass, so mostly its use is the last in the backward pass, and the sum is there
// then.
//
// Running statistics of a batch norm are shared as well: each use of a step normalises by its own batch and changes
// them in the order of the model, as PyTorch's module does that is called twice; computing an output again leaves them
// alone.

/// A frozen network while it is built over one of its inputs: Note [Frozen networks] in frozen_network.h.
struct FrozenScope {
  std::int32_t network = 0;
  LayerId owner = no_layer;         ///< of its parameters
  std::vector<std::string> wanted;  ///< layers whose outputs are sought, by their paths in the network
  std::string prefix;               ///< the path that its layers stand under
  bool differentiates = false;      ///< whether a gradient flows through it
  std::vector<ValueId> outputs;     ///< of the wanted layers; -1: not built yet
  std::unordered_map<std::string, ValueId> parameters;  ///< by their names in the network, once they exist
};

/// Of engine/ops/document_spans.h, for the tokens of a network.
struct DocumentValues {
  ValueId spans = -1, places = -1;
};

/// Grows a graph layer by layer: the vocabulary that engine/graph/layers.cpp translates layers with.
class GraphBuilder {
 public:
  GraphBuilder(Graph& graph, Initialization default_init, std::int64_t workspace_limit)
      : graph_(graph), default_init_(default_init), workspace_limit_(workspace_limit) {}

  /// Whether layers behave as in training.
  bool training() const { return graph_.mode == GraphMode::training && frozen_ == nullptr; }
  /// Whether the batch norm that is built goes by its batch, and moves its running statistics.
  bool normalises_by_batch() const;
  /// That share the batch; with `shares_norms` batch norms go by all of it, not by this one's part: Note [Batch norm
  /// over ranks] in engine/ops/batchnorm2d_over_ranks.h.
  void set_ranks(const RankGroup& ranks, bool shares_norms) {
    ranks_ = ranks;
    shares_norms_ = shares_norms;
  }
  const RankGroup& ranks() const { return ranks_; }
  bool shares_norms() const { return shares_norms_ && ranks_.count > 1; }
  /// Whether a backward pass goes through what is built.
  bool differentiates() const {
    return graph_.mode == GraphMode::training && (frozen_ == nullptr || frozen_->differentiates);
  }
  /// What is not trained, and in which groups the rest is; else all is. Must outlive this.
  void set_trained_layers(const TrainedLayers& trained) { trained_ = &trained; }
  /// What is built from here on is of a frozen network; null: of the model. `scope` must outlive that.
  void enter_frozen(FrozenScope* scope) {
    frozen_ = scope;
    sharings_.clear();  // of layers that were not built to their end
  }
  /// Whether all that is wanted of a frozen network is there.
  bool is_complete() const;
  Initialization default_init() const { return default_init_; }
  std::int64_t workspace_limit() const { return workspace_limit_; }
  const TensorType& type(ValueId value) const { return graph_.values[value].type; }
  /// All indices of an input are below that; 0: not known.
  std::int64_t num_indices(ValueId value) const {
    const auto known = num_indices_.find(value);
    return known == num_indices_.end() ? 0 : known->second;
  }
  void set_num_indices(ValueId value, std::int64_t num) { num_indices_[value] = num; }

  /// From here on layers that ask for documents get those of `tokens`.
  void set_documents(ValueId tokens, const DocumentSpansAttributes& attributes) {
    documents_ = Documents{tokens, attributes, {}};
  }
  /// Those, found by the layer that asks first; none where samples are not parted in documents, and in a frozen
  /// network.
  std::optional<DocumentValues> documents();

  /// Starts a layer; everything added until the next call belongs to it.
  void begin_layer(std::string path, std::string kind, const SourceLocation& location, ValueId input);
  /// Ends it: its output and totals are known.
  void end_layer(ValueId output);

  /// Throws ShapeError where the values together have more bytes than any machine holds.
  ValueId add_value(TensorType type, std::string_view role, Category category);
  /// A value in the memory of `base` with another shape of as many elements.
  ValueId add_view(ValueId base, const Shape& shape);
  /// A parameter of the layer. `role` is its name behind the layer's path: "weight". That of the layer which it shares
  /// parameters with, where it does; throws ConfigError where that one has none alike.
  ValueId add_parameter(std::string_view role, Parameter parameter);
  /// Constants of a frozen network, f32, as a parameter that no file has.
  ValueId add_constants(std::string_view name, std::vector<float> values);
  /// Layers at `path` and below use the parameters of those at `owner` and below, which are built: Note [Shared
  /// parameters]. Errors point at `location`.
  void begin_sharing(std::string path, std::string owner, const SourceLocation& location);
  /// Ends the last that was begun. Throws ConfigError where a parameter of the owner was not used, or it has none.
  void end_sharing();
  /// Applies an op; returns its outputs, the first with the role `first_role`, the others with `more_roles`.
  std::vector<ValueId> apply(Op op, std::vector<ValueId> inputs, const std::vector<std::string_view>& more_roles = {},
                             std::string_view first_role = "output");
  /// What layers may take by the name.
  void add_input(const std::string& name, ValueId input) { output_at_[name] = input; }
  /// The output of the layer that stands at `path` is `output`; it must be read, where it is of the model.
  void add_output(const std::string& path, const SourceLocation& location, ValueId output);
  /// The path of what `name` stands for in a list of layers under `prefix`: a layer of that list or of one around it,
  /// or one inside such a layer by its path from there. Throws ConfigError that points at `location` where there is
  /// none before it.
  std::string find_path(const std::string& prefix, const std::string& name, const SourceLocation& location) const;
  /// Its output.
  ValueId find_output(const std::string& prefix, const std::string& name, const SourceLocation& location) const {
    return output_at_.at(find_path(prefix, name, location));
  }
  /// Throws ConfigError for the first layer whose output no op reads and that is not the prediction.
  void check_outputs_are_read() const;

  /// A number that tells this dropout from the others of the model.
  std::uint32_t next_random_stream() { return ++num_random_streams_; }

 private:
  /// A parameter as its layer, or one that shares it, knows it.
  struct NamedParameter {
    std::string role;
    ValueId value = -1;
  };
  struct Documents {
    ValueId tokens = -1;
    DocumentSpansAttributes attributes;
    DocumentValues found;
  };
  struct Sharing {
    std::string path, owner;
    SourceLocation location;
  };

  /// Whether the layer's place at the owner's is an embedding, whose rows alone are shared: a bias is the layer's own.
  bool is_embedding(const Sharing& sharing) const;
  /// The owner's parameter for that of the layer; throws ConfigError where it has none alike.
  ValueId find_shared(const Sharing& sharing, std::string_view role, const Parameter& parameter) const;
  ValueId add_frozen_parameter(const std::string& name, Parameter parameter);

  Graph& graph_;
  Initialization default_init_;
  std::int64_t workspace_limit_;
  FrozenScope* frozen_ = nullptr;
  const TrainedLayers* trained_ = nullptr;
  RankGroup ranks_;
  bool shares_norms_ = false;
  LayerId layer_ = no_layer;
  std::uint32_t num_random_streams_ = 0;
  struct LayerOutput {
    std::string path;
    SourceLocation location;
    ValueId value = -1;
    bool must_be_read = true;
  };
  std::vector<LayerOutput> outputs_;  ///< in the order of the model
  std::unordered_map<std::string, ValueId> output_at_;
  std::vector<std::vector<NamedParameter>> parameters_of_;  ///< by layer
  std::unordered_map<std::string, LayerId> layer_at_;       ///< by path
  std::vector<Sharing> sharings_;                           ///< the inmost last
  std::unordered_map<ValueId, std::int64_t> num_indices_;
  std::optional<Documents> documents_;
  double num_bytes_ = 0;  ///< of the values
};

/// The bytes of a tensor, however large. Throws ShapeError where there are more than any machine holds: what is added
/// and multiplied of the others is far from overflowing.
double checked_bytes(const TensorType& type);

/// The path of the layer at `position` of a list that stands under `prefix`.
std::string path_of_layer(const LayerSpec& layer, std::size_t position, const std::string& prefix);

/// Translates `layers`, in order, onto `input`; returns the last output. `prefix` is the path they stand under. Of a
/// frozen network no more than what is wanted of it.
/// Throws ConfigError that points at the layer whose shapes disagree.
ValueId build_layers(GraphBuilder& builder, const std::vector<LayerSpec>& layers, const std::string& prefix,
                     ValueId input);

}  // namespace trainer
