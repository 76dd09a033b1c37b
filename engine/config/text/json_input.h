#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/errors.h"

namespace trainer {

// Note [JSON that is read]
// ~~~~~~~~~~~~~~~~~~~~~~~~
// Checkpoints, files of rates, logs of sweeps and events are trainer's own, but whoever hands one on may have changed
// it. All of it is parsed here, and nothing of it is believed: the library copies, writes and compares values by
// recursion, so nesting has a bound, and a value is taken through JsonInput, which checks its type and range.

/// Deeper than any configuration, whose nesting yaml_scan.h bounds, with what stands around it.
inline constexpr int deepest_json = 512;

/// Nothing where the text is not JSON, or is nested more than `deepest_json` deep. Json: nlohmann's json, ordered_json.
template <class Json>
std::optional<Json> parse_json(std::string_view text);

/// A value that is not what it must be; the message names the key, the value and what belongs there, not the file.
class JsonMistake : public DataError {
 public:
  using DataError::DataError;
};

/// A value of parsed JSON and the key it stands under. What is not there, of another type or out of range throws a
/// JsonMistake.
template <class Json>
class JsonInput {
 public:
  /// `value` must outlive it.
  explicit JsonInput(const Json& value, std::string key = "") : value_(&value), key_(std::move(key)) {}

  JsonInput at(std::string_view name) const;
  /// Nothing where this object lacks it.
  std::optional<JsonInput> find(std::string_view name) const;
  /// The elements of a list.
  std::vector<JsonInput> items() const;

  bool is_null() const;
  bool boolean() const;
  std::int64_t integer(std::int64_t least = 0, std::int64_t most = std::numeric_limits<std::int64_t>::max()) const;
  double number(double least = std::numeric_limits<double>::lowest(),
                double most = std::numeric_limits<double>::max()) const;
  const std::string& text() const;
  /// An object, as it is.
  const Json& object() const;
  /// A number, text or truth value, as it is.
  const Json& scalar() const;

 private:
  [[noreturn]] void refuse(const std::string& expected) const;

  const Json* value_;
  std::string key_;
};

}  // namespace trainer
