#include "engine/plan/search/excluded_values.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "engine/batch_part.h"
#include "engine/config/fields/model_numbers.h"
#include "engine/config/load_experiment.h"
#include "engine/plan/search/least_memory.h"
#include "engine/plan/search/run_fits.h"
#include "engine/program/chunked_loss.h"
#include "engine/program/compile.h"

namespace trainer {
namespace {

/// How many refused values in a row are passed over in search of one that is not.
constexpr std::int64_t most_passed_over = 64;

/// How many samples are held beside those that are taken changes no plan.
bool are_equal(DataDescription a, const DataDescription& b) {
  a.num_held = b.num_held;
  a.held_bytes = b.held_bytes;
  return a == b;
}

/// What the values of a search change.
struct ChangedKeys {
  bool batch = false, width = false, times = false;
  bool other = false;
};

ChangedKeys find_changed_keys(Candidate low, Candidate high) {
  ChangedKeys changed;
  changed.other = low.is_computed || high.is_computed;
  Experiment &a = low.experiment, &b = high.experiment;
  const auto equalize = [](auto& from, auto& to, bool& differs) {
    differs = differs || from != to;
    to = from;
  };
  const bool are_numbers = a.train.batch_size.number() && b.train.batch_size.number();
  equalize(a.train.batch_size, b.train.batch_size, are_numbers ? changed.batch : changed.other);
  std::vector<ModelNumber> low_numbers = numbers_of_model(a.layers), high_numbers = numbers_of_model(b.layers);
  changed.other = changed.other || low_numbers.size() != high_numbers.size() || !are_equal(low.data, high.data);
  for (std::size_t i = 0; i < std::min(low_numbers.size(), high_numbers.size()); ++i)
    equalize(*low_numbers[i].value, *high_numbers[i].value, low_numbers[i].is_width ? changed.width : changed.times);
  b.name = a.name;  // they may quote the value
  b.output = a.output;
  changed.other = changed.other || resolved_yaml(a) != resolved_yaml(b);
  return changed;
}

bool are_alike(const Layer& a, const Layer& b) {
  return a.kind == b.kind && a.input == b.input && a.output == b.output && a.num_parameters == b.num_parameters;
}

/// Whether the longer model is the shorter one with one more copy of layers that stand before it, behind which nothing
/// changes: then each further copy is the same again.
bool adds_one_copy(const std::vector<Layer>& shorter, const std::vector<Layer>& longer) {
  if (longer.size() <= shorter.size()) return false;
  const std::size_t added = longer.size() - shorter.size();
  std::size_t begin = 0;
  while (begin < shorter.size() && are_alike(shorter[begin], longer[begin])) ++begin;
  std::size_t end = 0;
  while (end < shorter.size() - begin && are_alike(shorter[shorter.size() - 1 - end], longer[longer.size() - 1 - end]))
    ++end;
  if (begin + end < shorter.size() || begin < added) return false;
  for (std::size_t i = 0; i < added; ++i)
    if (!are_alike(longer[begin + i], longer[begin + i - added])) return false;
  return true;
}

class Exclusion {
 public:
  Exclusion(const DeviceModel& device, const WithValue& with_value, std::int64_t capacity)
      : device_(device), with_value_(with_value), capacity_(capacity) {}

  std::vector<ValueRange> find(std::int64_t lowest, std::int64_t highest) {
    std::vector<ValueRange> nothing = {{lowest, highest, highest + 1, false}};
    const std::optional<Candidate> low = next_candidate(lowest, highest), high = last_candidate(lowest, highest);
    if (!low || !high) return nothing;
    keys_ = find_changed_keys(*low, *high);
    if (keys_.other || (keys_.batch ? 1 : 0) + (keys_.width ? 1 : 0) + (keys_.times ? 1 : 0) != 1) return nothing;
    const std::int64_t first = keys_.times ? std::max<std::int64_t>(lowest, 2) : lowest;
    if (first > highest || (keys_.times && !repeats_alike(first))) return nothing;
    // Wide layers there hold less than narrow ones may: gradients taken inside a product leave out whole values.
    if (keys_.width && (device_.linear_fusions().relu_gradients || device_.linear_fusions().gelu)) return nothing;
    std::vector<ValueRange> ranges;
    if (first > lowest) ranges.push_back({lowest, first - 1, first, false});
    for (std::int64_t begin = first; begin <= highest; begin = ranges.back().last + 1) {
      const std::int64_t last = keys_.batch ? last_alike(begin, highest) : highest;
      ranges.push_back({begin, last, first_excluded(begin, last), keys_.batch});
    }
    return ranges;
  }

 private:
  std::optional<Candidate> next_candidate(std::int64_t value, std::int64_t last) const {
    for (std::int64_t i = 0; i < most_passed_over && value + i <= last; ++i)
      if (std::optional<Candidate> candidate = with_value_(value + i)) return candidate;
    return std::nullopt;
  }
  std::optional<Candidate> last_candidate(std::int64_t first, std::int64_t value) const {
    for (std::int64_t i = 0; i < most_passed_over && value - i >= first; ++i)
      if (std::optional<Candidate> candidate = with_value_(value - i)) return candidate;
    return std::nullopt;
  }

  /// Whether the second and the third copy are the same, and nothing behind them sees how many there are.
  bool repeats_alike(std::int64_t times) const {
    const std::optional<Candidate> shorter = with_value_(times), longer = with_value_(times + 1);
    if (!shorter || !longer) return false;
    const auto layers_of = [](const Candidate& candidate) {
      return build_graph(candidate.experiment, candidate.data, 1, GraphMode::training).layers;
    };
    try {
      return adds_one_copy(layers_of(*shorter), layers_of(*longer));
    } catch (const ConfigError&) {
      return false;
    }
  }

  /// What of the structure the batch size decides: each part changes but once as it grows.
  std::array<bool, 3> structure_of(std::int64_t value) const {
    const std::optional<Candidate> candidate = with_value_(value);
    if (!candidate) return {};
    const RunSchedule schedule(candidate->experiment, candidate->data);
    const RunSchedule::Step step = schedule.step(1);
    const auto has_chunks = [&](std::int64_t classes, bool are_shared) {
      return loss_chunk_rows(candidate->experiment.memory.chunked_loss,
                             schedule.own_batch_size() * candidate->data.target.num_elements(), classes,
                             are_shared) > 0;
    };
    const std::int64_t classes = candidate->data.num_outputs;
    const std::int64_t own = part_of_batch(classes, candidate->experiment.parallel.tensor, 0).count;
    return {step.num_micro_batches - (step.last_is_odd ? 1 : 0) > 1, has_chunks(classes, false), has_chunks(own, true)};
  }

  std::int64_t last_alike(std::int64_t begin, std::int64_t highest) const {
    const std::array<bool, 3> structure = structure_of(begin);
    std::int64_t low = begin, high = highest + 1;
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      (structure_of(middle) == structure ? low : high) = middle;
    }
    return low;
  }

  /// Whether neither `value` nor anything above it, up to `last`, fits.
  bool is_too_much(std::int64_t value, std::int64_t last) const {
    for (std::int64_t i = 0; value + i <= last; ++i) {
      if (i == most_passed_over) return false;
      const std::optional<Candidate> candidate = with_value_(value + i);
      if (!candidate) continue;
      try {
        return least_memory(candidate->experiment, candidate->data, device_) >
               usable_capacity(candidate->experiment, capacity_);
      } catch (const ConfigError&) {
        // It cannot be planned; what comes next may.
      } catch (const DeviceError&) {
      }
    }
    return true;  // there is nothing there
  }

  std::int64_t first_excluded(std::int64_t first, std::int64_t last) const {
    // Upwards in growing strides: far above what fits a model may be too large even to be built.
    std::int64_t low = first - 1, high = first;
    while (high <= last && !is_too_much(high, last)) {
      low = high;
      high = std::min(first + 2 * (high - first) + 1, last + 1);
    }
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      (is_too_much(middle, last) ? high : low) = middle;
    }
    return high;
  }

  const DeviceModel& device_;
  const WithValue& with_value_;
  const std::int64_t capacity_;
  ChangedKeys keys_;
};

}  // namespace

bool differ_in_batch_only(const Candidate& low, const Candidate& high) {
  const ChangedKeys changed = find_changed_keys(low, high);
  return changed.batch && !changed.width && !changed.times && !changed.other;
}

std::vector<ValueRange> exclude_values(const DeviceModel& device, const WithValue& with_value, std::int64_t lowest,
                                       std::int64_t highest, std::int64_t capacity) {
  return Exclusion(device, with_value, capacity).find(lowest, highest);
}

}  // namespace trainer
