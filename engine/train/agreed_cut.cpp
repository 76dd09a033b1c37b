#include "engine/train/agreed_cut.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "engine/errors.h"
#include "engine/plan/search/fitting_cut.h"
#include "engine/train/agreement.h"

namespace trainer {
namespace {

using CutNames = std::vector<std::string>;

/// As it is where that cannot be planned: what is wrong is then told by all ranks, which compile it.
CutNames settled_cut(const Experiment& experiment, const DataDescription& data, const DeviceModel& device,
                     std::int64_t capacity) try {
  return with_settled_cut(experiment, data, device, capacity).parallel.cut;
} catch (const ConfigError&) {
  return {};
} catch (const DataError&) {
  return {};
} catch (const DeviceError&) {
  return {};
}

// A layer's path has no end of a line in it.
std::string text_of_cut(const CutNames& cut) {
  std::string text;
  for (const std::string& name : cut) text += name + '\n';
  return text;
}

CutNames cut_in_text(const std::string& text) {
  CutNames cut;
  std::istringstream lines(text);
  for (std::string name; std::getline(lines, name);) cut.push_back(name);
  return cut;
}

}  // namespace

Experiment with_agreed_cut(const Experiment& experiment, const DataDescription& data, const DeviceModel& device,
                           std::int64_t capacity, Communicator* ranks) {
  if (ranks == nullptr || experiment.parallel.pipeline == 1 || !experiment.parallel.cut.empty())
    return with_settled_cut(experiment, data, device, capacity);
  const std::vector<std::int64_t> capacities = gathered_by_first(*ranks, capacity);
  CutNames cut;
  if (ranks->rank() == 0)
    cut = settled_cut(experiment, data, device, *std::min_element(capacities.begin(), capacities.end()));
  Experiment agreed = experiment;
  agreed.parallel.cut = cut_in_text(text_of_rank(*ranks, 0, text_of_cut(cut)));
  return agreed;
}

}  // namespace trainer
