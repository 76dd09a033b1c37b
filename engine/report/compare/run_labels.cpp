#include "engine/report/compare/run_labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "engine/config/text/utf8_text.h"
#include "engine/report/compare/config_differences.h"

namespace trainer {
namespace {

constexpr std::size_t most_named_keys = 3, longest_value = 24, longest_path = 60;

/// The end of a path says more than its beginning.
std::string path_label(const RunRecord& record) {
  const std::string text = printable(record.folder.empty() ? record.path : record.folder);
  const std::string cut = shortened(text, longest_path);
  return cut.size() < text.size() && text.size() > longest_path && num_code_points(text) == text.size()
             ? "…" + text.substr(text.size() - longest_path)
             : cut;
}

/// What is changed to train otherwise comes before what it runs in.
std::size_t importance(const std::string& key) {
  constexpr std::array<std::string_view, 7> sections = {"optimizer", "train", "schedule", "loss",
                                                        "model",     "data",  "seed"};
  const std::string section = key.substr(0, key.find('.'));
  return static_cast<std::size_t>(std::find(sections.begin(), sections.end(), section) - sections.begin());
}

/// The few differences that runs are named by: those first that tell more of them apart.
std::vector<const ConfigDifference*> naming_keys(const std::vector<ConfigDifference>& differences,
                                                 std::size_t num_runs) {
  std::vector<const ConfigDifference*> rest, named;
  for (const ConfigDifference& difference : differences)
    if (!difference.is_name) rest.push_back(&difference);
  std::stable_sort(rest.begin(), rest.end(), [](const ConfigDifference* a, const ConfigDifference* b) {
    return importance(a->key) < importance(b->key);
  });
  std::vector<std::vector<std::string>> told(num_runs);  // of each run the values of those that are named
  while (!rest.empty() && named.size() < most_named_keys) {
    const auto num_apart = [&](const ConfigDifference* difference) {
      std::set<std::vector<std::string>> apart;
      for (std::size_t run = 0; run < num_runs; ++run) {
        std::vector<std::string> with = told[run];
        with.push_back(difference->texts[run]);
        apart.insert(std::move(with));
      }
      return apart.size();
    };
    auto best = rest.begin();
    for (auto other = rest.begin(); other != rest.end(); ++other)
      if (num_apart(*other) > num_apart(*best)) best = other;
    for (std::size_t run = 0; run < num_runs; ++run) told[run].push_back((*best)->texts[run]);
    named.push_back(*best);
    rest.erase(best);
  }
  return named;
}

std::string differing_keys(const std::vector<ConfigDifference>& differences,
                           const std::vector<const ConfigDifference*>& named, std::size_t run) {
  std::string label;
  for (const ConfigDifference* difference : named) {
    const std::string last = difference->last_part();
    const bool is_only_one = std::count_if(differences.begin(), differences.end(), [&](const ConfigDifference& other) {
                               return !other.is_name && other.last_part() == last;
                             }) == 1;
    label +=
        fmt::format("{}{}={}", label.empty() ? "" : ", ", shortened(is_only_one ? last : difference->key, longest_path),
                    shortened(difference->texts[run], longest_value));
  }
  const auto num_all = std::count_if(differences.begin(), differences.end(),
                                     [](const ConfigDifference& difference) { return !difference.is_name; });
  if (const std::size_t num_more = static_cast<std::size_t>(num_all) - named.size(); num_more > 0)
    label += fmt::format(" and {} more", num_more);
  return label;
}

}  // namespace

std::vector<std::string> run_labels(const std::vector<RunRecord>& records) {
  std::vector<std::string> labels;
  if (records.size() == 1) {
    labels.push_back(shortened(records.front().name.empty() ? records.front().path : records.front().name));
  } else {
    std::vector<const Json*> configs;
    configs.reserve(records.size());
    for (const RunRecord& record : records) configs.push_back(&record.config);
    const std::vector<ConfigDifference> differences = config_differences(configs);
    const std::vector<const ConfigDifference*> named = naming_keys(differences, records.size());
    for (std::size_t run = 0; run < records.size(); ++run) labels.push_back(differing_keys(differences, named, run));
    const std::vector<std::string> by_keys = labels;
    for (std::size_t run = 0; run < records.size(); ++run) {
      if (labels[run].empty())
        labels[run] = path_label(records[run]);
      else if (std::count(by_keys.begin(), by_keys.end(), by_keys[run]) > 1)
        labels[run] += ": " + path_label(records[run]);
    }
  }
  for (std::size_t run = 0; run < records.size(); ++run)
    if (const std::string status = records[run].status(); status != "done")
      labels[run] += fmt::format(" ({})", shortened(status));
  return labels;
}

}  // namespace trainer
