#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "engine/dtype.h"

namespace trainer {

/// Dimensions of a tensor, outermost first, at most five. Images are (N, H, W, C).
/// Trivially copyable, so that op descriptions can be compared and hashed without touching the heap.
class Shape {
 public:
  static constexpr int max_rank = 5;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims);
  explicit Shape(std::span<const std::int64_t> dims);

  int rank() const { return rank_; }
  /// Negative positions count from the end, as in PyTorch.
  std::int64_t operator[](int axis) const { return dims_[axis < 0 ? axis + rank_ : axis]; }
  std::int64_t& operator[](int axis) { return dims_[axis < 0 ? axis + rank_ : axis]; }
  const std::int64_t* begin() const { return dims_.data(); }
  const std::int64_t* end() const { return dims_.data() + rank_; }

  /// Product of the dimensions; throws ConfigError where it exceeds 2^60 (a shape no machine holds).
  std::int64_t num_elements() const;
  /// "32×28×28×1"; "scalar" for rank 0.
  std::string to_string() const;
  /// The same shape with another first dimension.
  Shape with_batch(std::int64_t batch) const;

  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<std::int64_t, max_rank> dims_{};
  int rank_ = 0;
};

/// Element type and shape of a dense tensor in row-major order.
struct TensorType {
  DType dtype = DType::f32;
  Shape shape;

  std::int64_t num_elements() const { return shape.num_elements(); }
  std::int64_t num_bytes() const { return num_elements() * static_cast<std::int64_t>(size_of(dtype)); }
  std::string to_string() const;

  friend bool operator==(const TensorType&, const TensorType&) = default;
};

}  // namespace trainer
