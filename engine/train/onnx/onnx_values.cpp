#include "engine/train/onnx/onnx_values.h"

#include "engine/errors.h"

namespace trainer {

OnnxDims OnnxValues::any_batch(const Shape& shape) {
  OnnxDims dims(shape.begin(), shape.end());
  dims.front() = -1;
  return dims;
}

std::string OnnxValues::reshaped(const std::string& name, const OnnxDims& dims) {
  return add("Reshape", {name, onnx_.integers(dims)});
}

std::string OnnxValues::turned(const std::string& name, const OnnxDims& order) {
  return add("Transpose", {name}, {{"perm", order}});
}

std::string OnnxValues::last(ValueId value) {
  std::string& name = names_[value].last;
  if (!name.empty()) return name;
  if (const ValueId base = graph_.values[value].view_of; base >= 0) {
    const std::string whole = last(base);
    return names_[value].last = reshaped(whole, any_batch(shape(value)));
  }
  require_internal(!names_[value].first.empty(), "a value is made before it is read");
  OnnxDims order = {0};
  for (int axis = 2; axis < rank(value); ++axis) order.push_back(axis);
  order.push_back(1);
  return name = turned(names_[value].first, order);
}

std::string OnnxValues::first(ValueId value) {
  if (rank(value) < 3) return last(value);
  if (!names_[value].first.empty()) return names_[value].first;
  const std::string own = last(value);
  OnnxDims order = {0, rank(value) - 1};
  for (int axis = 1; axis + 1 < rank(value); ++axis) order.push_back(axis);
  return names_[value].first = turned(own, order);
}

}  // namespace trainer
