#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace trainer {

/// Categories by name. Where all of them are numbers they are ordered and compared as numbers ("1" is "1.0"), else as
/// text.
class CategoryTable {
 public:
  CategoryTable() = default;
  /// Of distinct texts, in any order.
  explicit CategoryTable(const std::vector<std::string>& labels);

  std::optional<std::int32_t> find(std::string_view label) const;
  std::int64_t size() const { return static_cast<std::int64_t>(names_.size()); }
  const std::vector<std::string>& names() const { return names_; }

 private:
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  bool numeric_ = false;
  std::vector<std::string> names_;
  std::map<double, std::int32_t> number_of_number_;
  std::unordered_map<std::string, std::int32_t, TextHash, std::equal_to<>> number_of_text_;
};

}  // namespace trainer
