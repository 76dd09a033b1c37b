#include "engine/plan/link_rates.h"

#include <algorithm>
#include <bit>

#include "engine/errors.h"
#include "engine/ops/loss_chunks.h"
#include "engine/ops/op_definition.h"

namespace trainer {
namespace {

constexpr double nvlink_share = 20.0 / 25.0, pcie_share = 12.0 / 15.75, network_share = 12.0 / 12.5;
constexpr double slower_if_quick = 4;

/// Microseconds of a message, by both ways.
struct Latency {
  double whole, quick;
};
constexpr Latency nvlink_latency = {3.4, 0.47}, pcie_latency = {5.7, 1.0}, network_latency = {9.6, 2.7},
                  call_latency = {8.4, 3.6};

LinkRate link_of(const char* name, std::int64_t published, double share, Latency latency) {
  return {name, share * static_cast<double>(published), 1e-6 * latency.whole, 1e-6 * latency.quick};
}

LinkRate link_within(const GpuProfile& gpu, bool all_are_alike) {
  if (all_are_alike && gpu.nvlink > 0) return link_of("NVLink", gpu.nvlink, nvlink_share, nvlink_latency);
  return link_of("PCIe", gpu.pcie, pcie_share, pcie_latency);
}

/// One that is not known is the slower.
const LinkRate& slower(const LinkRate& a, const LinkRate& b) { return b.bytes_per_second < a.bytes_per_second ? b : a; }

/// How ranks are spread over machines.
struct Spread {
  std::int64_t num_nodes = 0, most = 0, least = 0;  ///< of those on one machine that has some
};

Spread spread_of(const RankGroup& ranks, const RankLinks& links) {
  const std::int64_t per_node = links.ranks_per_node;
  if (per_node == 0) return {1, ranks.count, ranks.count};
  if (ranks.stride >= per_node) return {ranks.count, 1, 1};
  Spread spread;
  for (std::int64_t place = 0; place < ranks.count; ++spread.num_nodes) {
    const std::int64_t end_of_node = (ranks.rank_at(place) / per_node + 1) * per_node;
    const std::int64_t next = (end_of_node - ranks.first + ranks.stride - 1) / ranks.stride;
    const std::int64_t here = std::min(next, ranks.count) - place;
    spread.most = std::max(spread.most, here);
    spread.least = place == 0 ? here : std::min(spread.least, here);
    place += here;
  }
  return spread;
}

}  // namespace

std::int64_t num_nodes(const RankGroup& ranks, const RankLinks& links) { return spread_of(ranks, links).num_nodes; }

RankLinks links_between(std::span<const GpusOfRanks> gpus, std::int64_t ranks_per_node) {
  require_internal(!gpus.empty(), "ranks have GPUs");
  RankLinks links;
  links.ranks_per_node = ranks_per_node > 0 ? ranks_per_node : usual_gpus_per_node;
  links.call_seconds = 1e-6 * call_latency.whole;
  links.quick_call_seconds = 1e-6 * call_latency.quick;
  // Where one kind of GPU ends and the next begins, within a machine.
  bool all_are_alike = true;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const bool begins_a_node = begin % links.ranks_per_node == 0;
    if (i > 0 && !begins_a_node && gpus[i].profile->path != gpus[i - 1].profile->path) all_are_alike = false;
    begin += gpus[i].count;
  }
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const GpuProfile& gpu = *gpus[i].profile;
    const LinkRate within = link_within(gpu, all_are_alike);
    const Latency latency = {gpu.network_latency, gpu.network_latency * network_latency.quick / network_latency.whole};
    const LinkRate between = link_of("the network", gpu.network, network_share, latency);
    links.within = i == 0 ? within : slower(links.within, within);
    links.between = i == 0 ? between : slower(links.between, between);
  }
  return links;
}

Exchange exchange_of(const Op& op) {
  Exchange exchange;
  if (!is_exchange(op)) return exchange;
  exchange.ranks = ranks_of(op);
  if (definition_of(op.kind).role != Role::communication) {
    exchange.num_calls = 0;
    const LossChunks chunks = loss_chunks(op);
    for (std::size_t part = 0; part < num_chunk_parts; ++part)
      for (const ChunkStep& step : chunks.parts[part]) {
        if (!is_exchange(step.op)) continue;
        const std::int64_t times = chunks.num_runs(static_cast<ChunkPart>(part));
        const Exchange of_step = exchange_of(step.op);
        exchange.num_calls += times * of_step.num_calls;
        exchange.num_rounds += times * of_step.num_rounds;
        exchange.sent_bytes += times * of_step.sent_bytes;
      }
    return exchange;
  }
  exchange.num_rounds = 1;
  switch (op.kind) {
    case OpKind::all_reduce: {
      const std::int64_t num_ranks = exchange.ranks.count;
      exchange.num_rounds = 2;
      for (const TensorType& tensor : op.inputs)
        exchange.sent_bytes += tensor.num_bytes() * 2 * (num_ranks - 1) / num_ranks;
      return exchange;
    }
    case OpKind::broadcast:
      for (const TensorType& tensor : op.inputs) exchange.sent_bytes += tensor.num_bytes();
      return exchange;
    case OpKind::reduce_scatter: {
      const auto& attributes = attributes_of<RankPartsAttributes>(op);
      for (std::size_t i = 0; i < op.inputs.size(); ++i)  // all but the own parts
        exchange.sent_bytes +=
            (i < static_cast<std::size_t>(attributes.num_tensors) ? 1 : -1) * op.inputs[i].num_bytes();
      for (const TensorType& part : op.outputs) exchange.sent_bytes -= part.num_bytes();
      return exchange;
    }
    case OpKind::all_gather:
      for (const TensorType& part : op.inputs) exchange.sent_bytes += (exchange.ranks.count - 1) * part.num_bytes();
      return exchange;
    case OpKind::send:
      exchange.sent_bytes = op.inputs[0].num_bytes();
      return exchange;
    case OpKind::receive:
      exchange.received_bytes = op.outputs[0].num_bytes();
      return exchange;
    default:
      throw InternalError("internal error: of every op that communicates it is known what it sends");
  }
}

std::optional<LinkRate> slowest_link(const RankGroup& ranks, const RankLinks& links) {
  if (ranks.count < 2) return std::nullopt;
  const Spread spread = spread_of(ranks, links);
  if ((spread.most > 1 && !links.within.is_known()) || (spread.num_nodes > 1 && !links.between.is_known()))
    return std::nullopt;
  if (spread.num_nodes == 1) return links.within;
  LinkRate between = links.between;
  between.bytes_per_second *= static_cast<double>(spread.least);
  return spread.most > 1 ? slower(between, links.within) : between;
}

std::optional<double> exchange_seconds(const Exchange& exchange, const RankLinks& links) {
  if (exchange.ranks.count < 2) return 0.0;
  const std::optional<LinkRate> slowest = slowest_link(exchange.ranks, links);
  if (!slowest) return std::nullopt;
  const Spread spread = spread_of(exchange.ranks, links);
  const auto halvings = static_cast<double>(std::bit_width(static_cast<std::uint64_t>(spread.num_nodes - 1)));
  const auto seconds_by = [&](double call, double within, double between, double slower) {
    const double messages = static_cast<double>(spread.most - 1) * within + halvings * between;
    return static_cast<double>(exchange.num_calls) * call + static_cast<double>(exchange.num_rounds) * messages +
           slower * static_cast<double>(std::max(exchange.sent_bytes, exchange.received_bytes)) /
               slowest->bytes_per_second;
  };
  return std::min(seconds_by(links.call_seconds, links.within.message_seconds, links.between.message_seconds, 1),
                  seconds_by(links.quick_call_seconds, links.within.quick_message_seconds,
                             links.between.quick_message_seconds, slower_if_quick));
}

}  // namespace trainer
