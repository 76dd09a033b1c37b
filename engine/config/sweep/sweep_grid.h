#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace trainer {

// Note [Sweeps]
// ~~~~~~~~~~~~~
// An argument of `trainer sweep` whose value is a list or a range is swept; any other is the same for all points.
//
//   train.batch_size=16,32,64        a list: commas outside brackets, braces and quotes part the values
//   train.batch_size=16..512:*2      a range: 16, 32, … up to 512, the end included where it is met
//   model.layers.1.linear.out=64..256:+64
//   memory.limit=1GiB..8GiB:*2       with a unit, the same at both ends
//   train.batch_size=1,2,8..64:*2    ranges stand in lists too
//   data.shape=[28,28,1]             one value
//
// Between integers a range with a factor gives integers: what is not whole is rounded, and nothing comes twice.

/// The most points that a sweep may have.
inline constexpr std::size_t most_sweep_points = 10'000;

struct SweptKey {
  std::string key;                  ///< "train.batch_size"
  std::string label;                ///< its last part, "batch_size", where no other swept key ends so; else the key
  std::vector<std::string> values;  ///< YAML, as written or counted
};

/// One combination of values.
struct SweepPoint {
  std::vector<std::string> values;  ///< one for each swept key
  std::string name;                 ///< "batch_size=16,amp=fp16"; serves as a folder's name, and differs between points
  std::vector<std::string> overrides;  ///< every argument, in the order given
};

/// The points of Note [Sweeps].
class SweepGrid {
 public:
  /// Throws ConfigError, which points at every mistake: ranges that are none, values that come twice, no swept key,
  /// too many points. What a key may hold is for load_experiment() to say.
  explicit SweepGrid(const std::vector<std::string>& arguments);

  const std::vector<SweptKey>& keys() const { return keys_; }  ///< in the order given, at least one
  /// All combinations, the last key fastest.
  std::vector<SweepPoint> points() const;
  /// The point with these values, one for each swept key; they need not be on the grid.
  SweepPoint point(const std::vector<std::string>& values) const;

 private:
  struct Argument {
    std::string text;
    int key = -1;  ///< of keys_; -1: not swept
  };
  std::vector<Argument> arguments_;
  std::vector<SweptKey> keys_;
};

/// What a value counts as on an axis and in an order: a number, or the bytes of a size; nothing: a text.
std::optional<double> number_of_value(const std::string& value);
/// Whether more of the key may be taken to need more memory: all values are numbers, and not of a bound on memory.
bool grows_memory(const std::string& key, const std::vector<std::string>& values);
/// Numbers first, by number, then texts.
bool value_is_less(const std::string& a, const std::string& b);

}  // namespace trainer
