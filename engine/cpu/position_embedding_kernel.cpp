#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "engine/cpu/kernels.h"
#include "engine/cpu/no_row.h"
#include "engine/cpu/parallel.h"
#include "engine/half.h"
#include "engine/simd.h"

namespace trainer {

namespace {

/// Samples of `places` rows of channels, in pieces of channels: a task is a place of one sample, or of all.
struct PlacedRows {
  std::int64_t samples, places, channels, length;
  DType type;
  int num_threads;

  PlacedRows(const TensorType& x, const TensorType& weight, const CpuContext& context)
      : samples(x.shape[0]),
        places(x.shape[1]),
        channels(x.shape[2]),
        length(weight.shape[0]),
        type(x.dtype),
        num_threads(x.num_elements() <= serial_elements ? 1 : context.num_threads) {}

  std::int64_t element_bytes() const { return static_cast<std::int64_t>(size_of(type)); }
};

constexpr std::int64_t piece_channels = 1024;

TRAINER_SIMD void add_two_rows(const float* x, const float* row, float* y, std::int64_t count) {
#pragma omp simd
  for (std::int64_t c = 0; c < count; ++c) y[c] = x[c] + row[c];
}

std::unique_ptr<CpuKernel> make_position_embedding_kernel(const Op& op, CpuContext& context) {
  return make_kernel([rows = PlacedRows(op.inputs[0], op.inputs[1], context), has_places = op.inputs.size() > 2](
                         const OperandAddresses& addresses, const StepScalars&) {
    const auto* const x = input<std::byte>(addresses, 0);
    const auto* const weight = input(addresses, 1);
    const auto* const places = has_places ? input<std::int32_t>(addresses, 2) : nullptr;
    auto* const y = output<std::byte>(addresses, 0);  // may be x
    parallel_tasks(rows.num_threads, rows.samples * rows.places, [&](std::int64_t at) {
      const std::int64_t place = places != nullptr ? places[at] : at % rows.places;
      const std::int64_t first = at * rows.channels;
      if (place < 0 || place >= rows.length) {
        write_no_row(rows.type, y + first * rows.element_bytes(), rows.channels);
        return;
      }
      const float* const row = weight + place * rows.channels;
      if (rows.type == DType::f32) {
        add_two_rows(reinterpret_cast<const float*>(x) + first, row, reinterpret_cast<float*>(y) + first,
                     rows.channels);
        return;
      }
      alignas(64) float piece[piece_channels];
      for (std::int64_t c = 0; c < rows.channels; c += piece_channels) {
        const std::int64_t count = std::min(piece_channels, rows.channels - c);
        const std::int64_t offset = (first + c) * rows.element_bytes();
        widen(rows.type, x + offset, piece, count);
        add_two_rows(piece, row + c, piece, count);
        narrow(rows.type, piece, y + offset, count);
      }
    });
  });
}

std::unique_ptr<CpuKernel> make_position_embedding_backward_kernel(const Op& op, CpuContext& context) {
  return make_kernel(
      [rows = PlacedRows(op.inputs[0], op.outputs[0], context)](const OperandAddresses& addresses, const StepScalars&) {
        const auto* const dy = input<std::byte>(addresses, 0);
        auto* const dweight = output(addresses, 0);
        parallel_tasks(rows.num_threads, rows.length, [&](std::int64_t place) {
          float* const row = dweight + place * rows.channels;
          std::fill_n(row, rows.channels, 0.0F);
          if (place >= rows.places) return;
          alignas(64) float piece[piece_channels];
          for (std::int64_t sample = 0; sample < rows.samples; ++sample)
            for (std::int64_t c = 0; c < rows.channels; c += piece_channels) {
              const std::int64_t count = std::min(piece_channels, rows.channels - c);
              widen(rows.type, dy + ((sample * rows.places + place) * rows.channels + c) * rows.element_bytes(), piece,
                    count);
              add_two_rows(row + c, piece, row + c, count);
            }
        });
      });
}

}  // namespace

const CpuOp position_embedding_on_cpu = {make_position_embedding_kernel, takes_16_bit};
const CpuOp position_embedding_backward_on_cpu = {make_position_embedding_backward_kernel, takes_16_bit};

}  // namespace trainer
