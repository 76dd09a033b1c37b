#pragma once

#include <set>
#include <string>

namespace trainer {

/// Tells a command's user what is wrong with files of rates.
class RatesWarnings {
 public:
  /// Says a problem on stderr the first time; nothing where it is empty.
  void tell(const std::string& problem);

 private:
  std::set<std::string> told_;
};

}  // namespace trainer
