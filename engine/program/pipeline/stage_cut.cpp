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

/// Where runs that a chunk begins with may end.
class LatestEnds {
 public:
  LatestEnds(std::size_t num_runs, std::span<const RefusedChunk> refused) : num_runs_(num_runs), refused_(refused) {}

  std::size_t of(std::size_t chunk, std::size_t begin) const {
    std::size_t latest = num_runs_;
    for (const RefusedChunk& each : refused_)
      if (each.chunk == chunk && each.begin >= begin) latest = std::min(latest, each.end - 1);
    return latest;
  }

 private:
  const std::size_t num_runs_;
  const std::span<const RefusedChunk> refused_;
};

double time_of_all(std::span<const LayerRun> runs) {
  double time = 0;
  for (const LayerRun& run : runs) time += run.time;
  return time;
}

/// Whether runs can be cut into so many chunks that each take no more: each, from the first, has all that it may.
bool can_take_no_more(std::span<const LayerRun> runs, std::size_t num_chunks, double most, const LatestEnds& ends) {
  double time = 0;
  std::size_t chunk = 0, begin = 0;
  for (std::size_t run = 0; run < runs.size(); ++run) {
    if (time + runs[run].time > most || run >= ends.of(chunk, begin)) {
      begin = run;
      time = 0;
      // One that cannot begin with this run has earlier ones.
      do {
        if (++chunk >= num_chunks) return false;
      } while (run >= ends.of(chunk, begin));
    }
    time += runs[run].time;
  }
  return true;
}

/// The least time for which runs can be cut into so many chunks that each take no more; nothing where none is long
/// enough.
std::optional<double> least_time_of_chunks(std::span<const LayerRun> runs, std::size_t num_chunks,
                                           const LatestEnds& ends) {
  double low = 0, high = time_of_all(runs);
  for (const LayerRun& run : runs) low = std::max(low, run.time);
  if (!can_take_no_more(runs, num_chunks, high, ends)) return std::nullopt;
  constexpr int halvings = 50;
  for (int i = 0; i < halvings; ++i) {
    const double middle = (low + high) / 2;
    (can_take_no_more(runs, num_chunks, middle, ends) ? high : low) = middle;
  }
  return high;
}

/// The runs at which the chunks behind the first begin: those across which the fewest bytes go, of all cuts whose
/// chunks take that time at most.
std::vector<std::size_t> cut_with_fewest_bytes(std::span<const LayerRun> runs, std::size_t num_chunks, double most,
                                               const LatestEnds& ends) {
  constexpr double never = std::numeric_limits<double>::infinity();
  const std::size_t num_runs = runs.size();
  // By chunk and the run behind its last one: bytes that cross up to there, and where the chunk begins.
  std::vector<std::vector<double>> bytes(num_chunks, std::vector(num_runs + 1, never));
  std::vector<std::vector<std::size_t>> begins(num_chunks, std::vector<std::size_t>(num_runs + 1, 0));
  const auto end_chunk = [&](std::size_t chunk, std::size_t begin, double crossed) {
    const std::size_t latest = ends.of(chunk, begin);
    double time = 0;
    for (std::size_t end = begin + 1; end <= latest && (time += runs[end - 1].time) <= most; ++end) {
      if (crossed >= bytes[chunk][end]) continue;
      bytes[chunk][end] = crossed;
      begins[chunk][end] = begin;
    }
  };
  end_chunk(0, 0, 0);
  for (std::size_t chunk = 1; chunk < num_chunks; ++chunk)
    for (std::size_t begin = chunk; begin < num_runs; ++begin)
      if (bytes[chunk - 1][begin] < never)
        end_chunk(chunk, begin, bytes[chunk - 1][begin] + runs[begin].crossing_bytes);
  std::vector<std::size_t> cut;
  if (bytes[num_chunks - 1][num_runs] == never) return cut;
  std::size_t end = num_runs;
  for (std::size_t chunk = num_chunks - 1; chunk > 0; --chunk) cut.insert(cut.begin(), end = begins[chunk][end]);
  return cut;
}

/// The run at which a chunk begins that is to begin at that layer; as many as there are where it is of none.
std::size_t run_of_name(const Graph& forward, std::span<const LayerRun> runs, const std::string& name,
                        const SourceLocation& location) {
  const std::vector<bool> is_meant = matching_layers(std::vector{name}, forward.layers, "parallel.cut", location);
  const auto first = std::find_if(runs.begin(), runs.end(), [&](const LayerRun& run) { return is_meant[run.layer]; });
  return static_cast<std::size_t>(first - runs.begin());
}

std::vector<std::size_t> named_cut(const Graph& forward, std::span<const LayerRun> runs,
                                   const ParallelConfig& parallel) {
  std::vector<std::size_t> cut;
  for (const std::string& name : parallel.cut) {
    const std::size_t run = run_of_name(forward, runs, name, parallel.cut_location);
    if (run == runs.size() || run <= (cut.empty() ? 0 : cut.back()))
      throw located_error(parallel.cut_location, fmt::format("no part of the list of layers can begin at '{}'", name),
                          "layers behind the first that compute something, in the order of the model");
    cut.push_back(run);
  }
  return cut;
}

}  // namespace

std::vector<LayerRun> layer_runs(const Graph& forward) {
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

std::vector<LayerRun> layer_runs_with_names(const Graph& forward) {
  const std::vector<LayerRun> all = layer_runs(forward);
  std::vector<LayerRun> named;
  for (std::size_t run = 0; run < all.size(); ++run) {
    if (run == 0 || run_of_name(forward, all, forward.layers[all[run].layer].path, {}) == run)
      named.push_back(all[run]);
    else
      named.back().time += all[run].time;
  }
  return named;
}

std::optional<std::vector<std::size_t>> cut_by_time(std::span<const LayerRun> runs, std::size_t num_chunks,
                                                    std::span<const RefusedChunk> refused) {
  if (num_chunks > runs.size()) return std::nullopt;
  const LatestEnds ends(runs.size(), refused);
  const std::optional<double> least = least_time_of_chunks(runs, num_chunks, ends);
  if (!least) return std::nullopt;
  if (num_chunks == 1) return std::vector<std::size_t>();
  // Rounding aside, a chunk may take as long as the slowest must; chunks of fewer bytes may take a little more.
  constexpr double slack = 1.02;
  const double time = time_of_all(runs);
  for (double most = *least * slack;; most *= slack) {
    std::vector<std::size_t> cut = cut_with_fewest_bytes(runs, num_chunks, most, ends);
    if (!cut.empty()) return cut;
    if (most >= time) return std::nullopt;  // more time makes no other cut
  }
}

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
  const std::vector<LayerRun> runs = layer_runs(forward);
  const std::int64_t num_chunks = parallel.pipeline * chunks_of_rank(parallel);
  if (num_chunks > std::ssize(runs))
    throw ConfigError(fmt::format("a list of {} layers is not cut into {} parts: lower parallel.pipeline{}",
                                  runs.size(), num_chunks, chunks_of_rank(parallel) > 1 ? " or parallel.chunks" : ""));
  if (num_chunks == 1) return {};
  const std::vector<std::size_t> cut = parallel.cut.empty() ? *cut_by_time(runs, static_cast<std::size_t>(num_chunks))
                                                            : named_cut(forward, runs, parallel);
  StageCut stages;
  for (const std::size_t run : cut) stages.begins.push_back(runs[run].layer);
  return stages;
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
