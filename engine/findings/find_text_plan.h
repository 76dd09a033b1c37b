#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/config/experiment.h"
#include "engine/findings/device_source.h"
#include "engine/plan/capacity.h"
#include "engine/plan/memory_plan.h"
#include "engine/plan/process_memory.h"
#include "engine/program/program.h"

namespace trainer {

/// What `trainer plan --generate` and `trainer generate` are asked for.
struct TextPlanRequest {
  Experiment experiment;
  std::string config_path;             ///< as findings name it
  std::vector<std::string> overrides;  ///< it was loaded with
  std::int64_t length = 0;             ///< tokens of the text, the prompt's with them
  std::string gpu, capacity;           ///< as --gpu and --capacity take them; empty: not given
  bool finds_longest = true;           ///< of texts, by many plans; else where it does not fit alone
};

/// What a text takes to be written, as data.
struct TextPlanFindings {
  std::string experiment_name, config_path;
  std::vector<std::string> overrides;
  std::string gpu_given, capacity_given;
  std::string device_kind, device_name, profile;  ///< profile: the file that describes the device, if it is one
  Capacity capacity;
  std::int64_t length = 0;
  std::int64_t num_parameters = 0, parameter_bytes = 0;
  std::int64_t num_kept = 0, cache_bytes = 0;  ///< tokens with keys and values, and what these take
  MemoryPlan plan;                             ///< under the capacity
  std::optional<MemoryPlan> unbounded;         ///< where it does not fit
  std::int64_t longest_text = 0;               ///< that the model has positions for; 0: any
  /// That was found to fit, by plans, and no longer one does; 0: none does. Where all do that the model has positions
  /// for, or any that was tried up to most_tried_length, it is that. Nothing where it was not sought.
  std::optional<std::int64_t> longest_that_fits;
  /// Where it does not fit, and would with parameters in 16 bit: what to set.
  struct Fix {
    std::string set;
    std::int64_t peak_reserved = 0;
  };
  std::optional<Fix> half;
  ProcessMemory process;
  std::vector<NamedBytes> outside_allocator;
  std::vector<std::string> notes;

  const MemoryPlan& shown() const { return unbounded ? *unbounded : plan; }
  std::int64_t bytes_a_token() const { return cache_bytes / num_kept; }
};

inline constexpr std::int64_t most_tried_length = std::int64_t{1} << 24;

/// Data whose samples are one text of tokens, as far as a device's capacity depends on it.
DataDescription data_of_texts();

/// Plans for the device that is here. Throws ConfigError, DeviceError.
TextPlanFindings find_text_plan(const TextPlanRequest& request, const DeviceModel& device, const Capacity& capacity);
/// The same for the one that the request names.
TextPlanFindings find_text_plan(const TextPlanRequest& request, const DeviceSource& devices);

}  // namespace trainer
