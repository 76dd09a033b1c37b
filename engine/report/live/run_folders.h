#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace trainer {

struct RunFolder {
  std::string path;
  std::int64_t rank = 0;  ///< above 0: of a rank, whose run's folder holds it
};

/// How far is looked for runs, so that a folder that holds everything does not keep who waits.
struct RunSearchLimits {
  int depth = 4;                     ///< folders below the one that is named, the nearest first
  std::size_t most_entries = 20000;  ///< looked at
  std::size_t most_runs = 200;       ///< the newest are taken
};

struct FoundRuns {
  std::vector<RunFolder> runs;   ///< each with its ranks behind it, in their order
  std::size_t num_left_out = 0;  ///< older ones
  bool is_whole = true;          ///< false where the limit of entries was met
};

/// Folders with an events.jsonl in and below `folder`, newest first by when that was written last. What a run's folder
/// holds is not looked through but for its ranks; links to folders and hidden folders are passed over, and so is what
/// cannot be read.
FoundRuns find_run_folders(const std::string& folder, const RunSearchLimits& limits = {});

/// One run's folder with its ranks.
std::vector<RunFolder> with_ranks(const std::string& folder);

/// Whether the folder holds a run's events.
bool holds_events(const std::string& folder);

}  // namespace trainer
