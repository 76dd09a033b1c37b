#include "engine/train/adaptation.h"

#include <algorithm>
#include <string_view>

#include "engine/plan/search/choices.h"

namespace trainer {

std::int64_t real_capacity(const AllocationFailure& failure, const std::optional<RefusedPlaces>& refused,
                           const Device& device) {
  const std::int64_t reserved_then = failure.statistics.reserved_bytes.all.current;
  std::int64_t least_refused = reserved_then + failure.segment_bytes;
  if (refused) {
    const std::int64_t asked = refused->reserved + refused->segment_bytes;
    if (asked < least_refused) least_refused = asked;
  }
  if (least_refused > failure.capacity) return failure.capacity;
  const std::int64_t reserved_now = refused ? refused->reserved : reserved_then;
  return std::max<std::int64_t>(std::min(least_refused - 1, reserved_now + device.available_bytes()), 0);
}

std::optional<Change> find_adaptation(Planner& planner, const Experiment& experiment, const DataDescription& data,
                                      std::int64_t capacity) {
  using Keep = ChoiceOptions::Keep;
  for (const Keep keep : {Keep::same_result, Keep::effective_batch}) {
    std::vector<Change> choices =
        find_choices(planner, experiment, data, capacity, {.keep = keep, .while_running = true});
    const auto best = std::min_element(choices.begin(), choices.end(), is_advised_before);
    if (best != choices.end()) return std::move(*best);
  }
  return std::nullopt;
}

std::int64_t passes_until(const RunSchedule& schedule, std::int64_t step) {
  if (step == 0) return 0;
  const RunSchedule::Step last = schedule.step(step);
  return last.epoch * schedule.batches_per_epoch() + last.first_batch + last.num_micro_batches;
}

std::vector<std::string> joined_overrides(const std::vector<std::string>& set, const std::vector<std::string>& more) {
  const auto key_of = [](std::string_view text) { return text.substr(0, text.find('=')); };
  std::vector<std::string> joined;
  for (const std::vector<std::string>* part : {&set, &more}) {
    for (const std::string& text : *part) {
      std::erase_if(joined, [&](const std::string& earlier) { return key_of(earlier) == key_of(text); });
      joined.push_back(text);
    }
  }
  return joined;
}

}  // namespace trainer
