#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
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

  std::optional<std::int32_t> find(const std::string& label) const;
  std::int64_t size() const { return static_cast<std::int64_t>(names_.size()); }
  const std::vector<std::string>& names() const { return names_; }

 private:
  bool numeric_ = false;
  std::vector<std::string> names_;
  std::map<double, std::int32_t> number_of_number_;
  std::unordered_map<std::string, std::int32_t> number_of_text_;
};

}  // namespace trainer
