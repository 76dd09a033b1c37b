#pragma once

#include <string>
#include <vector>

namespace trainer {

/// What becomes of data before a model sees it, and what its outputs stand for: kept with a model, so that it can be
/// used on data that it was not trained on. Texts are UTF-8 without control characters.
struct Preprocessing {
  std::vector<std::string> features;  ///< names of a table's columns, in order; empty: it is none
  /// A feature x, or a channel of pixels x from 0 to 1, becomes (x − mean) / std; empty: it stays as it is.
  std::vector<double> mean, std;
  std::string target;                ///< the column of the target; empty: it has no name
  std::vector<std::string> classes;  ///< names by number; empty: they have none, or there are no classes

  bool is_empty() const { return features.empty() && mean.empty() && target.empty() && classes.empty(); }

  friend bool operator==(const Preprocessing&, const Preprocessing&) = default;
};

}  // namespace trainer
