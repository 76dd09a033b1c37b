#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/report/text/style.h"
#include "engine/train/events.h"

namespace trainer {

struct OutOfMemoryReportOptions {
  std::string device;                         ///< "cpu", "cuda:0"
  std::span<const std::string> layer_labels;  ///< by layer, for the chart; may be empty
  std::string config_path;                    ///< for the line to paste; may be empty
  std::vector<std::string> overrides;         ///< that the run was started with
  /// What the output folder holds by now, which decides how the line to paste starts a run in it.
  enum class Holds : std::uint8_t {
    nothing,
    own_run,    ///< a checkpoint of the run that failed: a change that keeps the bits can go on from it
    other_run,  ///< a former one, which the run that failed was to replace
  } holds = Holds::nothing;
  /// The checkpoint to go on from is of a stage before the one that failed, so any change of that is one of what
  /// follows.
  bool is_behind_checkpoint = false;
  std::string from_stage{}, until_stage{};  ///< --from and --until, that the run was started with
  std::string file{};                       ///< that holds the whole report
  bool full = true;                         ///< else shortened, with the first three changes
};

/// "Out of memory. Tried to allocate 20.00 MiB. Device cpu has a total capacity of …": one paragraph without line
/// breaks, in the words of PyTorch's message. As there, what was tried is the segment, not the request.
std::string out_of_memory_message(const AllocationFailure& failure, const std::string& device);

/// What was found: the message; where it happened; the allocator's counters; who holds the memory, by category, by
/// layer, in the largest buffers, and outside the allocator, other processes included; the step so far as a chart; why
/// it does not fit; the words explained. Shortened, it has neither buffers nor chart nor words.
std::string out_of_memory_findings(const OutOfMemoryEvent& event, const OutOfMemoryReportOptions& options,
                                   const Style& style);

/// What stands last on the screen: who lacked how much, where; changes that were planned and fit; one of them to paste.
/// Shortened, it leaves a terminal of 80 columns and 24 lines room for the prompt.
std::string out_of_memory_ending(const OutOfMemoryEvent& event, const OutOfMemoryReportOptions& options,
                                 const Style& style);

/// Both.
std::string out_of_memory_report(const OutOfMemoryEvent& event, const OutOfMemoryReportOptions& options,
                                 const Style& style);

}  // namespace trainer
