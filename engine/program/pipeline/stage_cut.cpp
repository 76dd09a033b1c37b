#include "engine/program/pipeline/stage_cut.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>

#include "engine/config/diagnostic.h"
#include "engine/graph/layer_pattern.h"
#include "engine/program/op_time.h"

namespace trainer {
namespace {

/// A run of nodes of one layer, between which the list may be cut.
struct LayerRun {
  LayerId layer = no_layer;
  double time = 0;            ///< of its forward pass
  double crossing_bytes = 0;  ///< of what those in front of it make and it, or one behind it, reads
};

std::vector<LayerRun> runs_of(const Graph& forward) {
  std::vector<LayerRun> runs;
  std::vector<std::size_t> made_in(forward.values.size(), 0), last_read_in(forward.values.size(), 0);
  std::vector<char> is_made(forward.values.size(), 0);
  const LayerId last_layer = forward.values[forward.prediction].layer;  // behind it is the loss
  for (const GraphNode& node : forward.nodes) {
    if (runs.empty() || (node.layer > runs.back().layer && node.layer <= last_layer))
      runs.push_back({.layer = node.layer});
    const std::size_t run = runs.size() - 1;
    runs.back().time += estimated_time(node.op);
    for (const ValueId input : node.inputs) last_read_in[root_of(forward, input)] = run;
    for (const ValueId output : node.outputs) {
      made_in[root_of(forward, output)] = run;
      is_made[root_of(forward, output)] = 1;
    }
  }
  for (std::size_t v = 0; v < forward.values.size(); ++v)
    for (std::size_t run = made_in[v] + 1; is_made[v] != 0 && run <= last_read_in[v]; ++run)
      runs[run].crossing_bytes += static_cast<double>(forward.values[v].type.num_bytes());
  return runs;
}

/// The least time for which runs can be cut into so many parts that each take no more.
double least_time_of_parts(const std::vector<LayerRun>& runs, std::int32_t num_parts) {
  double low = 0, high = 0;
  for (const LayerRun& run : runs) {
    low = std::max(low, run.time);
    high += run.time;
  }
  const auto needs_no_more = [&](double most) {
    double time = 0;
    std::int32_t parts = 1;
    for (const LayerRun& run : runs) {
      if (time + run.time > most) {
        ++parts;
        time = 0;
      }
      time += run.time;
    }
    return parts <= num_parts;
  };
  constexpr int halvings = 50;
  for (int i = 0; i < halvings; ++i) {
    const double middle = (low + high) / 2;
    (needs_no_more(middle) ? high : low) = middle;
  }
  return high;
}

/// The runs at which the parts behind the first begin: those across which the fewest bytes go, of all cuts whose parts
/// take that time at most.
std::vector<std::size_t> cut_with_fewest_bytes(const std::vector<LayerRun>& runs, std::int32_t num_parts, double most) {
  constexpr double never = std::numeric_limits<double>::infinity();
  const std::size_t num_runs = runs.size(), parts = static_cast<std::size_t>(num_parts);
  // By part and the run behind its last one: bytes that cross up to there, and where the part begins.
  std::vector<std::vector<double>> bytes(parts, std::vector(num_runs + 1, never));
  std::vector<std::vector<std::size_t>> begins(parts, std::vector<std::size_t>(num_runs + 1, 0));
  double time = 0;
  for (std::size_t end = 1; end <= num_runs; ++end)
    if ((time += runs[end - 1].time) <= most) bytes[0][end] = 0;
  for (std::size_t part = 1; part < parts; ++part)
    for (std::size_t begin = part; begin < num_runs; ++begin) {
      const double crossed = bytes[part - 1][begin] + runs[begin].crossing_bytes;
      if (crossed == never) continue;
      time = 0;
      for (std::size_t end = begin + 1; end <= num_runs && (time += runs[end - 1].time) <= most; ++end) {
        if (crossed >= bytes[part][end]) continue;
        bytes[part][end] = crossed;
        begins[part][end] = begin;
      }
    }
  std::vector<std::size_t> cut;
  if (bytes[parts - 1][num_runs] == never) return cut;
  std::size_t end = num_runs;
  for (std::size_t part = parts - 1; part > 0; --part) cut.insert(cut.begin(), end = begins[part][end]);
  return cut;
}

std::vector<LayerId> balanced_begins(const std::vector<LayerRun>& runs, std::int32_t num_parts) {
  // Rounding aside, a part may take as long as the slowest must; parts of fewer bytes may take a little more.
  constexpr double slack = 1.02;
  double most = least_time_of_parts(runs, num_parts) * slack;
  std::vector<std::size_t> cut;
  while ((cut = cut_with_fewest_bytes(runs, num_parts, most)).empty() && num_parts > 1) most *= slack;
  std::vector<LayerId> begins;
  begins.reserve(cut.size());
  for (const std::size_t run : cut) begins.push_back(runs[run].layer);
  return begins;
}

std::vector<LayerId> named_begins(const Graph& forward, const std::vector<LayerRun>& runs,
                                  const ParallelConfig& parallel) {
  std::vector<LayerId> begins;
  for (const std::string& name : parallel.cut) {
    const std::vector<bool> is_meant =
        matching_layers(std::vector{name}, forward.layers, "parallel.cut", parallel.cut_location);
    const auto first = std::find_if(runs.begin(), runs.end(), [&](const LayerRun& run) { return is_meant[run.layer]; });
    if (first == runs.end() || first == runs.begin() || (!begins.empty() && first->layer <= begins.back()))
      throw located_error(parallel.cut_location, fmt::format("no part of the list of layers can begin at '{}'", name),
                          "layers behind the first that compute something, in the order of the model");
    begins.push_back(first->layer);
  }
  return begins;
}

}  // namespace

std::int32_t StageCut::chunk_of(LayerId layer) const {
  return static_cast<std::int32_t>(std::upper_bound(begins.begin(), begins.end(), layer) - begins.begin());
}

std::vector<std::pair<LayerId, LayerId>> StageCut::layers_of(const Graph& forward, std::int32_t stage,
                                                             std::int32_t num_stages) const {
  std::vector<std::pair<LayerId, LayerId>> layers;
  const std::vector<ValueId> fields = forward.fields();
  const auto is_of_model = [&](LayerId layer) {
    return std::none_of(fields.begin(), fields.end(),
                        [&](ValueId field) { return forward.values[field].layer == layer; });
  };
  const LayerId last_layer = forward.values[forward.prediction].layer;
  for (std::int32_t chunk = stage; chunk < num_chunks(); chunk += num_stages) {
    LayerId first = chunk == 0 ? 0 : begins[static_cast<std::size_t>(chunk) - 1];
    while (first < last_layer && !is_of_model(first)) ++first;
    const bool is_last = chunk + 1 == num_chunks();
    layers.emplace_back(first, is_last ? last_layer : begins[static_cast<std::size_t>(chunk)] - 1);
  }
  return layers;
}

StageCut cut_into_stages(const Graph& forward, const ParallelConfig& parallel) {
  const std::vector<LayerRun> runs = runs_of(forward);
  const auto num_chunks = static_cast<std::int32_t>(parallel.pipeline * chunks_of_rank(parallel));
  if (num_chunks > std::ssize(runs))
    throw ConfigError(fmt::format("a list of {} layers is not cut into {} parts: lower parallel.pipeline{}",
                                  runs.size(), num_chunks, chunks_of_rank(parallel) > 1 ? " or parallel.chunks" : ""));
  if (num_chunks == 1) return {};
  return {parallel.cut.empty() ? balanced_begins(runs, num_chunks) : named_begins(forward, runs, parallel)};
}

std::vector<std::vector<std::int32_t>> stages_of_parameters(const Graph& forward, const StageCut& cut,
                                                            std::int32_t num_stages) {
  std::vector<std::vector<std::int32_t>> stages(forward.parameters.size());
  for (const GraphNode& node : forward.nodes)
    for (const ValueId input : node.inputs) {
      const std::int32_t parameter = forward.values[root_of(forward, input)].parameter;
      if (parameter < 0) continue;
      std::vector<std::int32_t>& of_parameter = stages[static_cast<std::size_t>(parameter)];
      const std::int32_t stage = cut.chunk_of(node.layer) % num_stages;
      const auto place = std::lower_bound(of_parameter.begin(), of_parameter.end(), stage);
      if (place == of_parameter.end() || *place != stage) of_parameter.insert(place, stage);
    }
  for (std::vector<std::int32_t>& of_parameter : stages)
    if (of_parameter.empty()) of_parameter.push_back(0);
  return stages;
}

}  // namespace trainer
