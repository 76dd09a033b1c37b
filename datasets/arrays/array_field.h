#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "datasets/arrays/array_source.h"
#include "datasets/arrays/array_values.h"
#include "engine/shape.h"

namespace trainer {

/// What elements become.
enum class ArrayUse : std::uint8_t {
  pixels,         ///< u8, as they are
  numbers,        ///< f32; finite
  probabilities,  ///< f32 from 0 to 1
  classes         ///< i32 within limits
};

/// What each sample has of an array, by its first dimension.
struct ArrayFieldPlan {
  ArrayUse use = ArrayUse::numbers;
  Shape of_sample;               ///< of the dataset: (H, W, C) where the array is (N, H, W) or (N, C, H, W)
  bool channels_first = false;   ///< the array is (N, C, H, W) and `of_sample` (H, W, C)
  ClassLimits limits = {};       ///< of classes
  std::string limits_from = {};  ///< what says so: "data.classes is 10"

  TensorType type() const;
  /// Targets of one class or number are held, converted; arrays that are not deflated are read as they are needed.
  std::int64_t held_bytes(const StoredArray& array) const;
};

/// A field of a dataset's samples: one array, checked and converted. Values that cannot be used are DataErrors with
/// their index, when it is loaded or, of what load() leaves, when they are read.
class ArrayField {
 public:
  ArrayField(ArraySource source, const ArrayFieldPlan& plan);

  /// Note [Identity of arrays]
  /// An array of up to 1 GiB, one that is held, and classes are read through once: every value is checked, and the
  /// CRC-32 is that of all elements. Of another 256 KiB at 1,024 places, evenly spread from the first to the last, are
  /// taken for it, so that a run over what no memory holds begins at once; its values are checked as they are read.
  /// Type and shape count too. Elements count as they are in the file, before conversion. `crc` is that of what was
  /// loaded before.
  void load(std::uint32_t crc);

  std::int64_t size() const { return source_.array().shape[0]; }
  TensorType type() const { return plan_.type(); }
  /// Of what is loaded, and of what was before it.
  std::uint32_t crc32() const { return crc32_; }
  /// Writes what a sample has of it. Any thread may; allocates nothing.
  void read(std::int64_t index, std::byte* to) const;

 private:
  /// Checks and converts so many elements from `first` on, to floats or classes; `to` has room for as many.
  void convert(std::uint64_t first, const std::byte* from, std::size_t count, std::byte* to) const;
  [[noreturn]] void refuse_number(std::uint64_t element, const std::byte* value) const;
  [[noreturn]] void refuse_class(std::uint64_t element, const std::byte* value) const;
  void read_converted(std::int64_t index, std::byte* to) const;
  void check_floats(std::uint64_t first, const float* values, std::size_t count, const std::byte* stored) const;
  void sample_crc();
  void read_through();

  ArraySource source_;
  ArrayFieldPlan plan_;
  std::uint64_t sample_elements_ = 0;
  std::vector<std::byte> held_;  ///< converted, one value a sample
  std::uint32_t crc32_ = 0;
};

/// The largest class of an array plus 1, leaving `ignored` out; throws where that is none or beyond i32.
std::int64_t count_classes(const ArraySource& source, std::int32_t ignored);

}  // namespace trainer
