#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>

#include "engine/plan/search/candidate.h"
#include "engine/plan/search/kept_choice.h"
#include "engine/plan/search/planner.h"
#include "engine/plan/search/sized_program.h"
#include "engine/program/lent_places.h"

namespace trainer {

/// Batch sizes that fit because a larger one lends them its places; see Note [The largest value] in
/// engine/plan/search/largest_value.h. Of one experiment, of which nothing but the batch size changes.
class CoveredBatches {
 public:
  /// Null where nothing can be said: the two experiments differ in more, no places are lent, or the device knows no
  /// bound of its scratch. All must outlive it.
  static std::unique_ptr<CoveredBatches> make(Planner& planner, const WithValue& with_value, std::int64_t lowest,
                                              std::int64_t highest, std::int64_t capacity);

  /// That of Planner::answer, where it can be given with few questions to a library. But whether all that the
  /// experiment needs is there at all is not asked.
  std::optional<FitAnswer> quick_answer(std::int64_t batch_size);
  /// The largest batch size up to `batch_size` that has places with room for any scratch, and `room_behind` them;
  /// nothing where it is not found.
  std::optional<std::int64_t> find_lender(std::int64_t batch_size, std::int64_t room_behind = 0);
  /// Makes ready for covers(): how far down batch sizes are alike to `lender`, which is one. At least `lowest`.
  std::int64_t cover_below(std::int64_t lender, std::int64_t lowest);
  /// Whether that lends its places to this batch size, which is not below what cover_below has answered.
  bool covers(std::int64_t batch_size);
  /// What batch sizes that cover_below found alike need behind all places, of which `batch_size` is not covered; where
  /// they are too many to look at, twice what that needs. Nothing where the lender leaves as much, or a device has no
  /// answer.
  std::optional<std::int64_t> missing_room_behind(std::int64_t batch_size);

 private:
  /// Programs from one batch size to another that differ in nothing but sizes.
  struct Alike {
    SizedProgram program;
    std::optional<KeptChoice> choice;  ///< of training, where cheap ops are computed again
    std::int64_t low = 0, high = 0;
    std::unordered_map<std::int64_t, bool> known = {};  ///< by batch size
  };

  CoveredBatches(Planner& planner, Candidate candidate, std::int64_t capacity)
      : planner_(planner), candidate_(std::move(candidate)), capacity_(capacity) {}

  RoomyProgram compile(std::int64_t batch_size, bool asks);
  Candidate candidate_of(std::int64_t batch_size) const;
  bool make_alike(std::int64_t low, const Program& at_low);
  bool is_alike(Alike& alike, std::int64_t batch_size);
  std::int64_t needed_behind(Alike& alike, std::int64_t batch_size);
  std::int64_t most_behind();

  Planner& planner_;
  Candidate candidate_;
  const std::int64_t capacity_;
  std::optional<Program> lender_;
  std::int64_t lender_size_ = 0;
  bool accumulates_ = false;
  std::optional<Alike> training_, evaluation_;  ///< evaluation: nothing where all are as large as the lender's
  std::optional<std::int64_t> most_behind_;     ///< of both, once it was asked for
};

}  // namespace trainer
