#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "datasets/arrays/array_element.h"

namespace trainer {

/// What classes may be: 0 … num_classes − 1, or the target that a loss ignores.
struct ClassLimits {
  std::int64_t num_classes = 0;
  std::int32_t ignored = -100;
};

/// Elements, which need not be aligned, as f32 rounded to nearest. What is beyond f32 becomes infinite; NaN stays NaN.
void convert_to_numbers(ArrayElement element, const std::byte* from, std::size_t count, float* to);
/// Position of the first that is not finite, or `count`.
std::size_t first_not_finite(const float* values, std::size_t count);

/// Elements, whole numbers of any type, as classes. Returns the position of the first that is beyond the limits, or
/// `count`; `to` is then only in part what it would be.
std::size_t convert_to_classes(ArrayElement element, const std::byte* from, std::size_t count,
                               const ClassLimits& limits, std::int32_t* to);
/// The largest of elements that are whole numbers, leaving out `ignored`, and `least` at least; what i64 does not hold
/// counts as its largest.
std::int64_t largest_class(ArrayElement element, const std::byte* from, std::size_t count, std::int32_t ignored,
                           std::int64_t least);

/// An element as text, for messages.
std::string element_text(ArrayElement element, const std::byte* from);

}  // namespace trainer
