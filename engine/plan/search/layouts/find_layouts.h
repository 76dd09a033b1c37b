#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "engine/plan/search/layouts/layout.h"
#include "engine/plan/search/planner.h"

namespace trainer {

// Note [Search for layouts]
// ~~~~~~~~~~~~~~~~~~~~~~~~~
// All layouts are estimated (Note [Estimates of layouts] in layout_estimates.h) and planned in the order of their
// estimates, the lowest first. Of those that share data, layers and the list of layers among the same ranks the fastest
// is sought: none is planned whose estimate, lowered by most_too_high, is above a time that was planned for them, nor
// one that is estimated to hold more than there is. The search ends with a number of such fastest ones than which what
// is left is not faster, or, once the fastest of all is found, with its work (Planner::work).
//
// What does not fit as the experiment is, by plan or estimate, is looked at once more with most of its activations
// computed again (train.checkpointing: sqrt), in its place by that estimate.

/// A layout that was planned and fits.
struct FoundLayout {
  Layout layout;
  bool recomputes = false;  ///< train.checkpointing: sqrt, which the experiment has not
  Experiment experiment;
  Verdict verdict;
};

/// Layouts that cannot be, and why.
struct RefusedLayouts {
  std::string reason;  ///< the first line of what is wrong
  std::int64_t num_layouts = 0;
  Layout first;
};

struct LayoutFindings {
  std::vector<FoundLayout> found;  ///< of each way to share the fastest, the fastest first
  std::int64_t num_layouts = 0, num_planned = 0;
  std::int64_t num_too_large = 0;       ///< that were planned or estimated not to fit, recomputing or not
  std::vector<RefusedLayouts> refused;  ///< those of most layouts first
  bool is_complete = true;              ///< the search did not end with its work
  bool knows_fastest = true;            ///< nothing that was not planned can be faster
};

/// The experiment with a layout, which has been checked by the rules for experiments; throws ConfigError where one
/// refuses it.
using LoadLayout = std::function<Experiment(const Layout& layout)>;

/// What a rank's allocator may reserve: ranks that are in more groups have less, as their links hold more.
using LayoutCapacity = std::function<std::int64_t(const Layout& layout)>;

struct LayoutSearchOptions {
  std::size_t num_wanted = 8;  ///< ways to share of which the fastest is found
  /// Of the planner: that ends the search where the fastest of all is known, and where it is not.
  std::int64_t most_work = std::numeric_limits<std::int64_t>::max(), most_work_for_best = most_work;
};

/// `experiment` says everything but the layout.
LayoutFindings find_layouts(Planner& planner, const Experiment& experiment, const DataDescription& data,
                            const LayoutCapacity& capacity, const LayoutSpace& space, const LoadLayout& load,
                            const LayoutSearchOptions& options);

}  // namespace trainer
