#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trainer {

/// Brings texts to Unicode's normalization form C (UAX #15), of utf8proc's version of Unicode. A byte that is no part
/// of well-formed UTF-8 stays as it is, and what stands between two such bytes is a text of its own. One thread's own.
class TextComposer {
 public:
  /// `text` itself where it has no character from U+0300 on, else what the next call makes anew.
  std::string_view compose(std::string_view text);

 private:
  void add_well_formed(std::string_view text);
  void add_composed(std::string_view text);

  std::string composed_;
  std::vector<std::int32_t> characters_;
};

}  // namespace trainer
