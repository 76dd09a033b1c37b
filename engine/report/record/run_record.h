#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/report/memory/memory_json.h"

namespace trainer {

// Note [Recorded runs]
// ~~~~~~~~~~~~~~~~~~~~
// What a run told is read back from its events.jsonl, while it goes on or afterwards, by whatever shows runs: reports,
// plots, comparisons, the live view. Whoever hands a file on may have changed it, so each value is taken with its type
// and range (Note [JSON that is read] in engine/config/text/json_input.h); events and fields that this trainer does not
// know are passed over, since a newer one may have added them. A run that is resumed begins with another start event
// in the same file.

/// Bytes, as the event `step` and `eval` tell them.
struct RecordedMemory {
  std::int64_t requested = 0, allocated = 0, reserved = 0;  ///< at the end of the step
  std::int64_t peak_requested = 0, peak_allocated = 0, peak_reserved = 0;
  std::int64_t device_used = 0, device_total = 0, alloc_retries = 0;
};

struct RecordedStep {
  std::int64_t step = 0, epoch = 0;
  std::int32_t stage = 0;  ///< of RunRecord::stage_names
  bool skipped = false;
  double loss = 0;  ///< NaN: it was not finite
  double learning_rate = 0;
  std::int64_t samples = 0;
  double samples_per_second = 0;
  double seconds = 0, data_seconds = 0;
  double tokens_per_second = 0;  ///< 0: samples are no tokens
  double mfu = 0;                ///< 0: not known
  double loss_scale = 0;         ///< 0: not scaled
  RecordedMemory memory;
};

struct RecordedEvaluation {
  std::int64_t step = 0, epoch = 0;
  std::int32_t stage = 0;
  double loss = 0;  ///< NaN: it was not finite
  /// "accuracy", "top5", "mean_iou", "perplexity", … in the order of the event; those that were not found are left out.
  std::vector<std::pair<std::string, double>> metrics;
  std::int64_t samples = 0;
  double seconds = 0;
  bool best = false;
  RecordedMemory memory;
};

struct RecordedWarning {
  std::int64_t step = 0;
  std::string message;
};

/// What a run told until now.
struct RunRecord {
  std::string path;    ///< of its events
  std::string folder;  ///< that they stand in
  std::string name;    ///< of the experiment
  Json start;          ///< the last start event
  Json config;         ///< the resolved configuration, of that event
  std::string device_kind, device_name, trainer_version;
  std::int64_t capacity = 0, parameters = 0, total_steps = 0, steps_per_epoch = 0, batch_size = 0;
  std::int64_t num_starts = 0;             ///< above 1: it was resumed
  std::vector<std::int64_t> first_steps;   ///< of each start: the first step that it makes
  std::int64_t planned_peak_reserved = 0;  ///< as the last start was planned; 0: it was not, or did not fit
  std::vector<std::string> stage_names;    ///< in the order they were met; "train" of a run without stages
  std::vector<Json> stages;                ///< stage events
  std::vector<RecordedStep> steps;         ///< ascending
  std::vector<RecordedEvaluation> evaluations;
  std::vector<RecordedWarning> warnings;
  std::vector<std::int64_t> checkpoints;  ///< steps
  std::vector<Json> adaptations;          ///< adapt events of the last start
  std::optional<Json> out_of_memory, diverged;
  std::optional<Json> end;  ///< of the last start; nothing: it goes on, or was killed

  /// "done", "oom", "interrupted", "diverged", "failed", and "unfinished" where it goes on or was killed.
  std::string status() const;
};

/// Reads what a run tells as it tells it.
class RunReader {
 public:
  /// `path`: the folder of a run or of one of its ranks, or its events.jsonl. Throws DataError where there is none.
  explicit RunReader(const std::string& path);

  /// Takes the lines that have been finished since, up to the next start event; true where there were any. Where the
  /// file was replaced by that of another run, the record begins anew. Throws DataError that names file and line where
  /// one is no event of this version; the events before it stand in the record. `most_bytes`: the rest is left for the
  /// next call, for who shows something meanwhile (has_more()).
  bool read(std::int64_t most_bytes = std::numeric_limits<std::int64_t>::max());

  /// Whether there was more when read() ended than it took.
  bool has_more() const { return offset_ < size_; }
  /// Bytes that were taken, and those there were.
  std::int64_t taken_bytes() const { return offset_; }
  std::int64_t file_bytes() const { return size_; }
  /// Counts up where the record begins anew.
  std::int64_t num_beginnings() const { return num_beginnings_; }

  const RunRecord& record() const& { return record_; }
  RunRecord record() && { return std::move(record_); }
  /// Empties the lists of what may come without end (steps, evaluations, warnings, checkpoints, stages, adaptations),
  /// for who has taken of them what there is to be kept.
  void forget();

 private:
  void begin(std::uint64_t device, std::uint64_t node);
  void take(const std::string& line);
  std::int32_t stage_of(const std::string& name);

  RunRecord record_;
  std::unordered_map<std::string, std::int32_t> stage_places_;  ///< in record_.stage_names
  std::string pending_;  ///< the beginning of a line whose end is not written yet
  std::uint64_t device_ = 0, node_ = 0;
  std::int64_t offset_ = 0, size_ = 0, num_lines_ = 0;
  std::int64_t last_step_ = 0;  ///< also of those that were forgotten
  std::int64_t num_beginnings_ = 0;
};

/// All that a run has told. Throws DataError as RunReader does, and where no run has begun there yet.
RunRecord read_run(const std::string& path);

/// The events of a run's folder, or the path itself where that is a file; throws DataError where neither is there.
std::string events_path_of(const std::string& path);

/// Whether a command that takes runs and configurations has a run in that path: a folder, or a file of events.
bool names_run(const std::string& path);

}  // namespace trainer
