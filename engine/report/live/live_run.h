#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "engine/plan/live_buffers.h"
#include "engine/report/live/highest_values.h"
#include "engine/report/record/run_record.h"
#include "engine/report/run/loss_curve.h"

namespace trainer {

/// What became of a run.
enum class LiveState : std::uint8_t {
  waiting,  ///< no start event yet
  running,  ///< its folder is held
  unknown,  ///< without an end event, and where it runs or ran cannot be asked from here
  killed,   ///< without an end event, and nobody holds its folder
  done,     ///< all others: as its end event says
  out_of_memory,
  interrupted,
  diverged,
  failed,
  ended,    ///< in a way that this trainer does not know
  damaged,  ///< its events cannot be read
};
/// "running", "oom": as the event `end` has it, where it does.
std::string name_of(LiveState state);

/// What is shown of a run while it goes on, out of its events, in little memory however long it is: curves of bounded
/// length, sums, and the last event of each kind.
class LiveRun {
 public:
  /// `folder`: of a run or one of its ranks. `rank`: 0 of the run itself.
  explicit LiveRun(std::string folder, std::int64_t rank = 0) : folder_(std::move(folder)), rank_(rank) {}

  /// Takes what has been told since, at most so many bytes of it. What cannot be read is told by damage(), and nothing
  /// more is read until another file is there. Asks little of a file that has not changed.
  void update(std::int64_t most_bytes = std::numeric_limits<std::int64_t>::max());

  const std::string& folder() const { return folder_; }
  std::int64_t rank() const { return rank_; }
  bool has_begun() const { return reader_ && record().num_starts > 0; }
  /// "done", "oom": of the event `end` of its last start; empty where there is none.
  const std::string& end_status() const { return end_status_; }
  /// Once it has been read from; without lists that come without end.
  const RunRecord& record() const { return reader_->record(); }
  const std::string& damage() const { return damage_; }
  /// Part of the file that has been read; 1: all.
  double part_read() const;
  bool has_more() const { return damage_.empty() && reader_ && reader_->has_more(); }
  /// When its events were last written, in seconds since 1970.
  double written_seconds() const { return written_seconds_; }

  /// Of the start event, where it tells: seconds since 1970, else when the events were last written.
  double begin_seconds() const;
  std::int64_t pid() const { return pid_; }  ///< 0: not told
  const std::string& host() const { return host_; }

  const std::optional<RecordedStep>& last_step() const { return last_step_; }
  const LossCurve& losses() const { return losses_; }
  const LossCurve& evaluation_losses() const { return evaluation_losses_; }
  const HighestValues& peak_allocated() const { return peak_allocated_; }
  const std::optional<RecordedEvaluation>& last_evaluation() const { return last_evaluation_; }
  const std::optional<RecordedEvaluation>& best_evaluation() const { return best_evaluation_; }
  /// Its stage's name; empty of a run without stages.
  std::string stage() const;
  std::int64_t capacity() const { return capacity_; }
  std::int64_t highest_reserved() const { return highest_reserved_; }
  std::int64_t highest_allocated() const { return highest_allocated_; }
  /// At the peak: once it has ended as measured, before as planned; where memory ran out, at that moment. Nothing where
  /// that is not told, and of a run that was adapted while it goes on, whose plan is another by then.
  const std::optional<CategoryBytes>& by_category() const { return by_category_; }
  bool is_measured() const { return is_measured_; }

  std::int64_t num_warnings() const { return num_warnings_; }
  const std::optional<RecordedWarning>& last_warning() const { return last_warning_; }
  std::optional<std::int64_t> last_checkpoint() const { return last_checkpoint_; }
  std::int64_t num_adaptations() const { return num_adaptations_; }

  /// Of the last steps, some seconds of them; 0: not known.
  double samples_per_second() const;
  double tokens_per_second() const;
  double mfu() const;
  /// Part of the time of the last steps that training waited for samples.
  double waiting_share() const;
  /// Until its last step at the pace since it began or went on, evaluations and checkpoints included; negative:
  /// unknown.
  double remaining_seconds() const;

 private:
  /// What was read since the last call.
  /// What was told up to the next start event, at most so many bytes of it.
  void read_piece(const std::string& path, std::int64_t most_bytes);
  void take_told();
  void take_start();
  void take(const RecordedStep& step);
  void take(const RecordedEvaluation& evaluation);
  void take_end();
  void take_failure();
  void forget_run();

  std::string folder_;
  std::int64_t rank_ = 0;
  std::optional<RunReader> reader_;
  std::string damage_;
  std::uint64_t device_ = 0, node_ = 0;  ///< of the file that was looked at
  std::int64_t seen_bytes_ = -1;
  double written_seconds_ = 0;

  std::int64_t num_beginnings_ = 0, num_starts_ = 0;
  std::int64_t pid_ = 0;
  std::string host_, end_status_;
  double begin_seconds_ = 0;
  bool has_stages_ = false;
  LossCurve losses_, evaluation_losses_;
  HighestValues peak_allocated_;
  std::optional<RecordedStep> last_step_;
  std::deque<RecordedStep> recent_;
  double recent_seconds_ = 0;  ///< of them all
  std::optional<RecordedEvaluation> last_evaluation_, best_evaluation_;
  std::optional<CategoryBytes> by_category_;
  bool is_measured_ = false;
  std::int64_t capacity_ = 0, highest_reserved_ = 0, highest_allocated_ = 0;
  std::int64_t num_warnings_ = 0, num_adaptations_ = 0;
  std::optional<RecordedWarning> last_warning_;
  std::optional<std::int64_t> last_checkpoint_;
  std::int64_t steps_since_start_ = 0;
  double seconds_since_start_ = 0;
};

}  // namespace trainer
