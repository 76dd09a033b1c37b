#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace trainer {

/// Texts of cells that hold no value: the empty one, those that pandas.read_csv takes for missing (na_values in its
/// documentation), and those of data.missing_values.
class MissingValues {
 public:
  explicit MissingValues(const std::vector<std::string>& more);

  bool contains(std::string_view text) const {
    if (text.empty()) return true;
    return begins_[static_cast<unsigned char>(text.front())] && texts_.contains(text);
  }

 private:
  std::set<std::string, std::less<>> texts_;
  std::array<bool, 256> begins_{};  ///< by first byte: whether one of the texts has it; most cells are told by it
};

}  // namespace trainer
