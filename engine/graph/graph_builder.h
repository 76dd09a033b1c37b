#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/graph/graph.h"

namespace trainer {

/// Grows a graph layer by layer: the vocabulary that engine/graph/layers.cpp translates layers with.
class GraphBuilder {
 public:
  GraphBuilder(Graph& graph, Initialization default_init, std::int64_t workspace_limit)
      : graph_(graph), default_init_(default_init), workspace_limit_(workspace_limit) {}

  bool training() const { return graph_.mode == GraphMode::training; }
  Initialization default_init() const { return default_init_; }
  std::int64_t workspace_limit() const { return workspace_limit_; }
  const TensorType& type(ValueId value) const { return graph_.values[value].type; }

  /// Starts a layer; everything added until the next call belongs to it.
  void begin_layer(std::string path, std::string kind, const SourceLocation& location, ValueId input);
  /// Ends it: its output and totals are known.
  void end_layer(ValueId output);

  /// Throws ShapeError where the values together have more bytes than any machine holds.
  ValueId add_value(TensorType type, std::string_view role, Category category);
  /// A value in the memory of `base` with another shape of as many elements.
  ValueId add_view(ValueId base, const Shape& shape);
  /// A parameter of the layer. `role` is its name behind the layer's path: "weight".
  ValueId add_parameter(std::string_view role, Parameter parameter);
  /// Applies an op; returns its outputs, the first with the role `first_role`, the others with `more_roles`.
  std::vector<ValueId> apply(Op op, std::vector<ValueId> inputs, const std::vector<std::string_view>& more_roles = {},
                             std::string_view first_role = "output");
  /// What layers may take by the name.
  void add_input(const std::string& name, ValueId input) { output_at_[name] = input; }
  /// The output of the layer that stands at `path` of the model is `output`; it must be read.
  void add_output(const std::string& path, const SourceLocation& location, ValueId output);
  /// What `name` stands for in a list of layers under `prefix`: a layer of that list or of one around it, or one inside
  /// such a layer by its path from there. Throws ConfigError that points at `location` where there is none before it.
  ValueId find_output(const std::string& prefix, const std::string& name, const SourceLocation& location) const;
  /// Throws ConfigError for the first layer whose output no op reads and that is not the prediction.
  void check_outputs_are_read() const;

  /// A number that tells this dropout from the others of the model.
  std::uint32_t next_random_stream() { return ++num_random_streams_; }

 private:
  Graph& graph_;
  Initialization default_init_;
  std::int64_t workspace_limit_;
  LayerId layer_ = no_layer;
  std::uint32_t num_random_streams_ = 0;
  struct LayerOutput {
    std::string path;
    SourceLocation location;
    ValueId value = -1;
  };
  std::vector<LayerOutput> outputs_;  ///< in the order of the model
  std::unordered_map<std::string, ValueId> output_at_;
  double num_bytes_ = 0;  ///< of the values
};

/// The bytes of a tensor, however large. Throws ShapeError where there are more than any machine holds: what is added
/// and multiplied of the others is far from overflowing.
double checked_bytes(const TensorType& type);

/// Translates `layers`, in order, onto `input`; returns the last output. `prefix` is the path they stand under.
/// Throws ConfigError that points at the layer whose shapes disagree.
ValueId build_layers(GraphBuilder& builder, const std::vector<LayerSpec>& layers, const std::string& prefix,
                     ValueId input);

}  // namespace trainer
