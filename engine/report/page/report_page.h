#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/report/page/page_columns.h"
#include "engine/report/page/reported_input.h"

namespace trainer {

// Note [The page]
// ~~~~~~~~~~~~~~~
// One HTML file that opens from a disk and loads nothing: scripts and styles stand in it, named by their SHA-256 in a
// content security policy that allows nothing else. Data stand in it as JSON, in which `<` is written as an escape, and
// as columns (Note [Columns of a page]). The page puts texts into its elements as texts alone, never as markup, so that
// names in a configuration or a file of events are shown whatever they hold.

/// A report, input by input; what an input needs is let go of once it was added.
class ReportPage {
 public:
  explicit ReportPage(std::string trainer_version) : version_(std::move(trainer_version)) {}

  void add(ReportedInput input);
  /// All of it, with comparisons where there are several plans or inputs.
  std::string html() const;

  std::size_t num_inputs() const { return inputs_.size(); }
  /// Whether each plan fits.
  bool fits() const;

 private:
  Json comparison() const;

  std::string version_;
  std::vector<Json> inputs_, plans_, configs_;
  PageColumns columns_;
  bool has_curves_ = false;
};

}  // namespace trainer
