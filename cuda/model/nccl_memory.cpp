#include "cuda/model/nccl_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "engine/bytes.h"

namespace trainer::cuda {
namespace {

/// A variable of NCCL's; `usual` where it is not set, or to nothing that NCCL would take.
std::int64_t nccl_setting(const char* name, std::int64_t usual) {
  const char* const value = std::getenv(name);
  const std::string_view text = value == nullptr ? "" : value;
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  constexpr std::int64_t most = std::int64_t{1} << 30;
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  return is_number && number >= 1 && number <= most ? number : usual;
}

}  // namespace

CommunicationMemory estimated_nccl_memory(const RankSums& sums) {
  const std::vector<LinkedGroup> groups = linked_groups(sums.layout);
  if (groups.empty()) return {};
  constexpr std::int64_t usual_buffer = std::int64_t{4} << 20, usual_ll = std::int64_t{8} * 512 * 8 * 16,
                         usual_ll128 = std::int64_t{120} * 640 * 8 * 8, most_channels = 64;
  const std::int64_t channels = std::min(nccl_setting("NCCL_MAX_CTAS", usual_nccl_channels), most_channels);
  const std::int64_t buffer = nccl_setting("NCCL_BUFFSIZE", usual_buffer);
  const std::int64_t short_buffers =
      nccl_setting("NCCL_LL_BUFFSIZE", usual_ll) + nccl_setting("NCCL_LL128_BUFFSIZE", usual_ll128);
  std::int64_t num_buffers = 0, num_of_tensors = 0, most_neighbours = 0;
  for (const LinkedGroup& group : groups) {
    const std::int64_t neighbours = std::min<std::int64_t>(group.ranks.count - 1, 2);
    num_buffers += (group.carries_tensors ? channels : 1) * neighbours;
    num_of_tensors += group.carries_tensors ? 1 : 0;
    most_neighbours = std::max(most_neighbours, neighbours);
  }
  const std::int64_t num_data = sums.layout.num_data;
  const std::int64_t in_order =
      sums.in_order && num_data > 2 ? std::bit_width(static_cast<std::uint64_t>(num_data)) - 1 : 0;
  const std::int64_t partners = in_order + std::min<std::int64_t>(sums.layout.num_stages - 1, 2);
  num_buffers += channels * partners;
  const auto num_of_numbers = static_cast<std::int64_t>(groups.size()) - num_of_tensors;
  std::string of_groups;
  if (groups.size() > 1)
    of_groups = num_of_numbers == 0
                    ? fmt::format(" in each of {} groups of ranks", num_of_tensors)
                    : fmt::format(" in {} of {} groups of ranks and one in each other", num_of_tensors, groups.size());
  return {
      num_buffers * (buffer + short_buffers),
      fmt::format(
          "{} channels (NCCL_MAX_CTAS){}, each with buffers of {} (NCCL_BUFFSIZE) and {} for {} in its "
          "ring{}",
          channels, of_groups, format_bytes(buffer), format_bytes(short_buffers),
          most_neighbours == 1 ? "its neighbour" : "both neighbours",
          partners > 0 ? fmt::format(" and {} {} to exchange with", partners, partners == 1 ? "rank" : "ranks") : "")};
}

}  // namespace trainer::cuda
