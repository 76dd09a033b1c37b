#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "engine/cpu/kernels.h"
#include "engine/cpu/parallel.h"

namespace trainer {

namespace {

/// One of the tensors (rows, channels) that lie side by side in another's rows.
struct ChannelRange {
  std::int64_t row_bytes = 0, first_byte = 0;
};

std::int64_t channel_bytes(const TensorType& type, std::int64_t channels) {
  return channels * static_cast<std::int64_t>(size_of(type.dtype));
}

/// Rows in blocks, so that every thread has some, of a few KiB each.
RowParts row_blocks(const TensorType& whole) {
  const std::int64_t channels = whole.shape[-1];
  return row_parts(whole.num_elements() / channels, std::max<std::int64_t>(1, 8192 / channels),
                   whole.num_elements() / channels);
}

int num_copying_threads(const TensorType& whole, const CpuContext& context) {
  return whole.num_elements() <= serial_elements ? 1 : context.num_threads;
}

std::unique_ptr<CpuKernel> make_concat_kernel(const Op& op, CpuContext& context) {
  const TensorType& y = op.outputs[0];
  std::vector<ChannelRange> ranges;
  std::int64_t first = 0;
  for (const TensorType& x : op.inputs) {
    ranges.push_back({channel_bytes(x, x.shape[-1]), channel_bytes(x, first)});
    first += x.shape[-1];
  }
  return make_kernel(
      [ranges = std::move(ranges), blocks = row_blocks(y), row_bytes = channel_bytes(y, y.shape[-1]),
       threads = num_copying_threads(y, context)](const OperandAddresses& addresses, const StepScalars&) {
        parallel_tasks(threads, blocks.num_parts, [&](std::int64_t block) {
          for (std::size_t i = 0; i < ranges.size(); ++i) {
            const auto* const from = input<std::byte>(addresses, static_cast<int>(i));
            std::byte* const to = output<std::byte>(addresses, 0) + ranges[i].first_byte;
            const auto num_bytes = static_cast<std::size_t>(ranges[i].row_bytes);
            for (std::int64_t row = blocks.begin(block); row < blocks.end(block); ++row)
              std::memcpy(to + row * row_bytes, from + row * ranges[i].row_bytes, num_bytes);
          }
        });
      });
}

std::unique_ptr<CpuKernel> make_channel_slice_kernel(const Op& op, CpuContext& context) {
  const TensorType &x = op.inputs[0], &y = op.outputs[0];
  const ChannelRange range{channel_bytes(y, y.shape[-1]),
                           channel_bytes(x, attributes_of<ChannelSliceAttributes>(op).first)};
  return make_kernel(
      [range, blocks = row_blocks(y), row_bytes = channel_bytes(x, x.shape[-1]),
       threads = num_copying_threads(y, context)](const OperandAddresses& addresses, const StepScalars&) {
        const auto* const from = input<std::byte>(addresses, 0) + range.first_byte;
        auto* const to = output<std::byte>(addresses, 0);
        const auto num_bytes = static_cast<std::size_t>(range.row_bytes);
        parallel_tasks(threads, blocks.num_parts, [&](std::int64_t block) {
          for (std::int64_t row = blocks.begin(block); row < blocks.end(block); ++row)
            std::memcpy(to + row * range.row_bytes, from + row * row_bytes, num_bytes);
        });
      });
}

std::unique_ptr<CpuKernel> make_channel_slice_backward_kernel(const Op& op, CpuContext& context) {
  const TensorType &dy = op.inputs[0], &dx = op.outputs[0];
  const ChannelRange range{channel_bytes(dy, dy.shape[-1]),
                           channel_bytes(dx, attributes_of<ChannelSliceAttributes>(op).first)};
  return make_kernel([range, blocks = row_blocks(dx), row_bytes = channel_bytes(dx, dx.shape[-1]),
                      threads = num_copying_threads(dx, context)](const OperandAddresses& addresses,
                                                                  const StepScalars&) {
    const auto* const from = input<std::byte>(addresses, 0);
    auto* const to = output<std::byte>(addresses, 0);
    const std::int64_t end = range.first_byte + range.row_bytes;
    parallel_tasks(threads, blocks.num_parts, [&](std::int64_t block) {
      for (std::int64_t row = blocks.begin(block); row < blocks.end(block); ++row) {
        std::byte* const of_row = to + row * row_bytes;
        std::memset(of_row, 0, static_cast<std::size_t>(range.first_byte));
        std::memcpy(of_row + range.first_byte, from + row * range.row_bytes, static_cast<std::size_t>(range.row_bytes));
        std::memset(of_row + end, 0, static_cast<std::size_t>(row_bytes - end));
      }
    });
  });
}

}  // namespace

const CpuOp concat_on_cpu = {make_concat_kernel, takes_16_bit};
const CpuOp channel_slice_on_cpu = {make_channel_slice_kernel, takes_16_bit};
const CpuOp channel_slice_backward_on_cpu = {make_channel_slice_backward_kernel, takes_16_bit};

}  // namespace trainer
