#include <algorithm>
#include <cstring>

#include "engine/cpu/channel_place.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/parallel.h"

namespace trainer {

ChannelPlace::ChannelPlace(const Op& op)
    : rows(op.inputs[0].num_elements() / op.inputs[0].shape[-1]),
      channels(op.inputs[0].shape[-1]),
      row_channels(op.outputs[0].shape[-1]),
      first(std::max<std::int64_t>(op.placed_at, 0)),
      element_bytes(static_cast<std::int64_t>(size_of(op.outputs[0].dtype))),
      continues(continues_whole(op)) {}

namespace {

/// In threads, for rows of the parts.
template <typename Row>
void for_rows(const ChannelPlace& place, int num_threads, Row&& row) {
  const RowParts blocks = row_parts(place.rows, std::max<std::int64_t>(1, 8192 / place.row_channels),
                                    std::max<std::int64_t>(1, place.rows));
  parallel_tasks(place.rows * place.row_channels <= serial_elements ? 1 : num_threads, blocks.num_parts,
                 [&](std::int64_t block) {
                   for (std::int64_t i = blocks.begin(block); i < blocks.end(block); ++i) row(i);
                 });
}

std::unique_ptr<CpuKernel> make_place_channels_kernel(const Op& op, CpuContext& context) {
  return make_kernel(
      [place = ChannelPlace(op), threads = context.num_threads](const OperandAddresses& addresses, const StepScalars&) {
        place.copy_others(addresses, threads);
        const auto num_bytes = place.channels * place.element_bytes;
        for_rows(place, threads, [&](std::int64_t i) {
          std::memcpy(place.row(addresses.outputs[0], i), input<std::byte>(addresses, 0) + i * num_bytes,
                      static_cast<std::size_t>(num_bytes));
        });
      });
}

}  // namespace

void ChannelPlace::copy_others(const OperandAddresses& addresses, int num_threads) const {
  if (!continues || addresses.inputs.back() == addresses.outputs[0]) return;
  const auto* const from = static_cast<const std::byte*>(addresses.inputs.back());
  auto* const to = static_cast<std::byte*>(addresses.outputs[0]);
  const std::int64_t row_bytes = row_channels * element_bytes, end = (first + channels) * element_bytes;
  for_rows(*this, num_threads, [&](std::int64_t i) {
    std::memcpy(to + i * row_bytes, from + i * row_bytes, static_cast<std::size_t>(first * element_bytes));
    std::memcpy(to + i * row_bytes + end, from + i * row_bytes + end, static_cast<std::size_t>(row_bytes - end));
  });
}

const CpuOp place_channels_on_cpu = {make_place_channels_kernel, takes_16_bit};

}  // namespace trainer
