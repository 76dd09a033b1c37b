#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/train/onnx/onnx_graph.h"

namespace trainer {

/// What the values of a graph are called in an OnnxGraph, in either order of their channels: Note [Graphs as ONNX].
class OnnxValues {
 public:
  OnnxValues(const Graph& graph, OnnxGraph& onnx) : graph_(graph), onnx_(onnx), names_(graph.values.size()) {}

  /// With the channels last, as trainer has them, or as the second axis. Of a rank below 3 both are the same.
  std::string last(ValueId value);
  std::string first(ValueId value);
  /// Whether `first` is there without being made.
  bool is_first(ValueId value) const { return !names_[value].first.empty(); }
  void set_last(ValueId value, std::string name) { names_[value].last = std::move(name); }
  void set_first(ValueId value, std::string name) {
    (rank(value) < 3 ? names_[value].last : names_[value].first) = std::move(name);
  }

  /// Where nodes that turn or reshape a value stand.
  void enter(std::string scope) { scope_ = std::move(scope); }
  const std::string& scope() const { return scope_; }

  const Shape& shape(ValueId value) const { return graph_.values[value].type.shape; }
  int rank(ValueId value) const { return shape(value).rank(); }
  /// For a Reshape: the batch, or what is a multiple of it, is what is left over.
  static OnnxDims any_batch(const Shape& shape);
  std::string reshaped(const std::string& name, const OnnxDims& dims);
  std::string turned(const std::string& name, const OnnxDims& order);
  std::string add(std::string_view op, const std::vector<std::string>& inputs,
                  const std::vector<OnnxAttribute>& attributes = {}) {
    return onnx_.add(scope_, op, inputs, attributes);
  }
  OnnxGraph& onnx() { return onnx_; }

 private:
  struct Names {
    std::string last, first;
  };

  const Graph& graph_;
  OnnxGraph& onnx_;
  std::vector<Names> names_;
  std::string scope_;
};

/// The nodes of attention over q, k and v with channels last: (samples, positions, features) each, or one of all three.
/// The op has no spans.
std::string onnx_attention(OnnxValues& values, const Op& op, const std::vector<std::string>& operands);

}  // namespace trainer
