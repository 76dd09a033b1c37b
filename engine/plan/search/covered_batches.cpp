#include "engine/plan/search/covered_batches.h"

#include <algorithm>
#include <utility>

#include "engine/errors.h"
#include "engine/memory/rounding.h"
#include "engine/ops/add.h"
#include "engine/plan/memory_plan.h"
#include "engine/plan/search/batch_family.h"
#include "engine/plan/search/excluded_values.h"
#include "engine/plan/search/settle_experiment.h"
#include "engine/program/run_schedule.h"

namespace trainer {
namespace {

/// To look at one that is alike, in instructions.
constexpr std::int64_t work_of_batch_size = 8;

}  // namespace

std::unique_ptr<CoveredBatches> CoveredBatches::make(Planner& planner, const WithValue& with_value, std::int64_t lowest,
                                                     std::int64_t highest, std::int64_t capacity) {
  const std::optional<Candidate> low = with_value(lowest), high = with_value(highest);
  if (!low || !high || lowest >= highest || !differ_in_batch_only(*low, *high)) return nullptr;
  if (!may_have_lent_places(high->experiment) || searches_program(high->experiment)) return nullptr;
  // Sizes of a rank's part do not tell those of batches.
  const ParallelConfig& parallel = high->experiment.parallel;
  if (total_ranks(parallel) > 1 || is_pipelined(parallel) || parallel.deterministic) return nullptr;
  // Bounds are those of whole libraries: where one op has none, none has.
  if (planner.device().most_workspace_bytes(add_op({DType::f32, {1}})) == unknown_workspace_bytes) return nullptr;
  return std::unique_ptr<CoveredBatches>(new CoveredBatches(planner, *high, capacity));
}

Candidate CoveredBatches::candidate_of(std::int64_t batch_size) const {
  Candidate candidate = candidate_;
  candidate.experiment.train.batch_size = batch_size;
  candidate.experiment.memory.allocator = AllocatorKind::planned;
  return candidate;
}

RoomyProgram CoveredBatches::compile(std::int64_t batch_size, bool asks) {
  std::int64_t num_instructions = 0;
  RoomyProgram program = compile_with_room(candidate_.experiment, candidate_.data, planner_.device(), batch_size,
                                           capacity_, asks, num_instructions);
  planner_.add_work(num_instructions);
  return program;
}

std::optional<FitAnswer> CoveredBatches::quick_answer(std::int64_t batch_size) {
  try {
    const RoomyProgram program = compile(batch_size, true);
    if (program.program) return FitAnswer::fits;
    // Whole pages of expandable segments are less.
    if (program.is_too_large) return FitAnswer::does_not_fit;
  } catch (const Error&) {  // the plan tells it
  }
  return std::nullopt;
}

std::optional<std::int64_t> CoveredBatches::find_lender(std::int64_t batch_size, std::int64_t room_behind) {
  const auto lends = [&](std::int64_t size) {
    try {
      const RoomyProgram program = compile(size, false);
      return program.program && program.program->placement->segment_bytes <= capacity_ - room_behind;
    } catch (const Error&) {
      return false;
    }
  };
  std::int64_t fitting = batch_size, failing = batch_size + 1;
  for (std::int64_t distance = 1; fitting >= 1 && !lends(fitting); distance *= 2) {
    failing = fitting;
    fitting = batch_size - distance;
  }
  if (fitting < 1) return std::nullopt;
  while (failing - fitting > 1) {
    const std::int64_t middle = fitting + (failing - fitting) / 2;
    (lends(middle) ? fitting : failing) = middle;
  }
  return fitting;
}

bool CoveredBatches::make_alike(std::int64_t low, const Program& at_low) {
  std::optional<SizedProgram> program = SizedProgram::make(at_low, *lender_);
  if (!program || at_low.evaluations.empty() != lender_->evaluations.empty()) return false;
  const Candidate low_candidate = candidate_of(low), high_candidate = candidate_of(lender_size_);
  if (RunSchedule(low_candidate.experiment, low_candidate.data).accumulates() != accumulates_) return false;
  std::optional<KeptChoice> choice;
  if (candidate_.experiment.memory.recompute_cheap &&
      !(choice = KeptChoice::make(low_candidate, high_candidate, planner_.device())))
    return false;
  std::optional<Alike> evaluation;
  if (!at_low.evaluations.empty()) {
    const std::int64_t eval_low = at_low.evaluations.front().batch_size,
                       eval_high = lender_->evaluations.front().batch_size;
    if (eval_low > eval_high) return false;
    if (eval_low < eval_high) {
      std::optional<SizedProgram> sized = SizedProgram::make_evaluation(at_low, *lender_);
      if (!sized) return false;
      evaluation.emplace(Alike{std::move(*sized), std::nullopt, eval_low, eval_high});
    }
  }
  training_.emplace(Alike{std::move(*program), std::move(choice), low, lender_size_});
  evaluation_ = std::move(evaluation);
  return true;
}

std::int64_t CoveredBatches::cover_below(std::int64_t lender, std::int64_t lowest) {
  training_.reset();
  evaluation_.reset();
  most_behind_.reset();
  lender_size_ = lender;
  lender_ = compile(lender, false).program;
  const Candidate candidate = candidate_of(lender);
  accumulates_ = RunSchedule(candidate.experiment, candidate.data).accumulates();
  require_internal(lender_.has_value(), "a batch size that lends its places has them");
  // The odd last batch may be far below the lender: a low end is sought from below.
  const auto next_low = [&](std::int64_t low) { return 4 * low <= lender ? 2 * low : lender - (lender - low) / 2; };
  for (std::int64_t low = lowest; low < lender; low = next_low(low)) {
    try {
      // Below what it can be held in is not the question.
      std::int64_t num_instructions = 0;
      const RoomyProgram at_low = compile_with_room(candidate_.experiment, candidate_.data, planner_.device(), low,
                                                    unlimited_capacity, false, num_instructions);
      planner_.add_work(num_instructions);
      if (at_low.program && make_alike(low, *at_low.program)) return low;
    } catch (const Error&) {  // another low end
    }
  }
  return lender;
}

bool CoveredBatches::is_alike(Alike& alike, std::int64_t batch_size) {
  if (batch_size < alike.low || batch_size > alike.high) return false;
  if (const auto known = alike.known.find(batch_size); known != alike.known.end()) return known->second;
  planner_.add_work(work_of_batch_size);
  if (alike.choice && !alike.choice->is_alike_throughout()) planner_.add_work(alike.choice->num_nodes() / 16);
  const std::optional<std::int64_t> beyond = alike.program.scratch_beyond_high(planner_.device(), batch_size);
  const bool is_one = beyond &&
                      lender_->placement->segment_bytes + (*beyond > 0 ? round_to_blocks(*beyond) : 0) <= capacity_ &&
                      (!alike.choice || alike.choice->is_alike(batch_size)) &&
                      alike.program.has_statistics_alike(planner_.device(), batch_size);
  alike.known.emplace(batch_size, is_one);
  return is_one;
}

std::int64_t CoveredBatches::needed_behind(Alike& alike, std::int64_t batch_size) {
  if (batch_size < alike.low || batch_size > alike.high) return 0;
  planner_.add_work(work_of_batch_size);
  return alike.program.scratch_beyond_high(planner_.device(), batch_size).value_or(0);
}

std::int64_t CoveredBatches::most_behind() {
  std::int64_t most = 0;
  for (std::optional<Alike>* const alike : {&training_, &evaluation_})
    for (std::int64_t size = *alike ? (*alike)->low : 1; *alike && size <= (*alike)->high; ++size)
      most = std::max(most, needed_behind(**alike, size));
  return most;
}

std::optional<std::int64_t> CoveredBatches::missing_room_behind(std::int64_t batch_size) {
  constexpr std::int64_t most_sizes = 200'000;
  const auto are_many = [](const std::optional<Alike>& alike) {
    return alike && alike->high - alike->low > most_sizes;
  };
  std::int64_t most = 0;
  try {
    if (are_many(training_) || are_many(evaluation_)) {
      candidate_.experiment.train.batch_size = batch_size;
      const RunSchedule schedule(candidate_.experiment, candidate_.data);
      if (training_)
        for (const std::int64_t size : {batch_size, schedule.odd_batch_size()})
          most = std::max(most, 2 * needed_behind(*training_, size));
      if (evaluation_)
        for (const std::int64_t size : {schedule.eval_batch_size(), schedule.odd_eval_batch_size()})
          most = std::max(most, 2 * needed_behind(*evaluation_, size));
    } else {
      if (!most_behind_) most_behind_ = most_behind();
      most = *most_behind_;
    }
  } catch (const Error&) {  // the plan tells it
    return std::nullopt;
  }
  most = round_up(most, least_block_bytes);
  return most > capacity_ - lender_->placement->segment_bytes ? std::optional(most) : std::nullopt;
}

bool CoveredBatches::covers(std::int64_t batch_size) {
  if (batch_size == lender_size_) return true;
  if (!training_) return false;
  candidate_.experiment.train.batch_size = batch_size;
  const RunSchedule schedule(candidate_.experiment, candidate_.data);
  if (schedule.accumulates() != accumulates_) return false;
  const auto evaluates_alike = [&](std::int64_t size) {
    if (lender_->evaluations.empty()) return false;
    return size == lender_->evaluations.front().batch_size || (evaluation_ && is_alike(*evaluation_, size));
  };
  try {
    if (!is_alike(*training_, batch_size)) return false;
    if (schedule.odd_batch_size() > 0 && !is_alike(*training_, schedule.odd_batch_size())) return false;
    if (schedule.num_whole_eval_batches() > 0 && !evaluates_alike(schedule.eval_batch_size())) return false;
    return schedule.odd_eval_batch_size() == 0 || evaluates_alike(schedule.odd_eval_batch_size());
  } catch (const Error&) {  // the plan tells it
    return false;
  }
}

}  // namespace trainer
