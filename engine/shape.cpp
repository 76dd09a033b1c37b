#include "engine/shape.h"

#include <fmt/format.h>

#include "engine/errors.h"

namespace trainer {

Shape::Shape(std::initializer_list<std::int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const std::int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  require_internal(dims.size() <= max_rank, "a shape has at most five dimensions");
  for (int i = 0; i < rank_; ++i) dims_[i] = dims[i];
}

std::int64_t Shape::num_elements() const {
  std::int64_t count = 1;
  for (std::int64_t dim : *this) {
    if (__builtin_mul_overflow(count, dim, &count) || count > (std::int64_t{1} << 60))
      throw ConfigError("a tensor of shape " + to_string() + " has more elements than any machine holds");
  }
  return count;
}

std::string Shape::to_string() const {
  if (rank_ == 0) return "scalar";
  return fmt::format("{}", fmt::join(begin(), end(), "×"));
}

Shape Shape::with_batch(std::int64_t batch) const {
  Shape shape = *this;
  if (shape.rank_ > 0) shape.dims_[0] = batch;
  return shape;
}

std::string TensorType::to_string() const { return fmt::format("{} {}", name_of(dtype), shape.to_string()); }

}  // namespace trainer
