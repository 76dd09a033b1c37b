#include "datasets/transforms/resize.h"

#include <algorithm>
#include <cstring>

#include "datasets/transforms/weighted_sums.h"

namespace trainer {

namespace {

template <std::int64_t channels>
void take_pixels(const std::uint8_t* row, const ResampledAxis& columns, std::uint8_t* target) {
  for (const std::int32_t first : columns.firsts()) {
    std::memcpy(target, row + first * channels, channels);
    target += channels;
  }
}

void resize_nearest(const Image& source, const ResampledAxis& rows, const ResampledAxis& columns, Image& target) {
  for (std::int64_t y = 0; y < rows.num_kept(); ++y) {
    const std::uint8_t* const row = source.row(rows.first(y));
    std::uint8_t* const target_row = target.row(y);
    if (y > 0 && rows.first(y) == rows.first(y - 1)) {
      std::memcpy(target_row, target.row(y - 1), static_cast<std::size_t>(target.row_bytes()));
      continue;
    }
    switch (source.channels()) {
      case 1:
        take_pixels<1>(row, columns, target_row);
        break;
      case 3:
        take_pixels<3>(row, columns, target_row);
        break;
      case 4:
        take_pixels<4>(row, columns, target_row);
        break;
      default:
        for (std::int64_t x = 0; x < columns.num_kept(); ++x) {
          std::memcpy(target_row + x * source.channels(), row + columns.first(x) * source.channels(),
                      static_cast<std::size_t>(source.channels()));
        }
    }
  }
}

/// Resizes the rows of `range` to rows that lie `stride` apart from `targets` on.
void resize_all_rows(const Image& source, const PixelRange& range, const ResampledAxis& columns, std::int64_t stride,
                     std::vector<std::uint8_t>& last_row, std::uint8_t* targets) {
  constexpr std::int64_t at_once = 4;
  const auto row_of = [&](std::int64_t y) -> const std::uint8_t* {
    if (y + 1 < source.height()) return source.row(y);
    last_row.resize(static_cast<std::size_t>(source.row_bytes() + row_slack));
    std::memcpy(last_row.data(), source.row(y), static_cast<std::size_t>(source.row_bytes()));
    return last_row.data();
  };
  std::int64_t y = range.begin;
  for (; y + at_once <= range.end; y += at_once, targets += at_once * stride) {
    resize_rows<at_once>({row_of(y), row_of(y + 1), row_of(y + 2), row_of(y + 3)},
                         {targets, targets + stride, targets + 2 * stride, targets + 3 * stride}, source.channels(),
                         columns);
  }
  for (; y < range.end; ++y, targets += stride) {
    resize_rows<1>({row_of(y)}, {targets}, source.channels(), columns);
  }
}

}  // namespace

void resize(const Image& source, const ResampledAxis& rows, const ResampledAxis& columns, ResizeScratch& scratch,
            Image& target) {
  target.reshape(rows.num_kept(), columns.num_kept(), source.channels());
  if (rows.geometry().interpolation == Resampling::nearest) return resize_nearest(source, rows, columns, target);

  const bool copies_rows = rows.geometry().is_copy(), copies_columns = columns.geometry().is_copy();
  const auto [first, last] = std::minmax_element(rows.firsts().begin(), rows.firsts().end());
  const PixelRange range{*first, *last + rows.num_taps()};
  const std::int64_t row_bytes = target.row_bytes();
  if (copies_rows) {
    const std::int64_t top = rows.geometry().origin + rows.geometry().kept_begin;
    resize_all_rows(source, {top, top + rows.num_kept()}, columns, row_bytes, scratch.last_row, target.row(0));
    return;
  }
  // Columns that stay are read where they are.
  const std::uint8_t* between =
      source.row(0) + (columns.geometry().origin + columns.geometry().kept_begin) * source.channels();
  std::int64_t stride = source.row_bytes(), top = 0;
  if (!copies_columns) {
    stride = row_bytes;
    top = range.begin;
    const auto needed = static_cast<std::size_t>(range.size() * stride);
    scratch.between.reserve(needed);  // and no more: a plan counts it
    scratch.between.resize(needed);
    resize_all_rows(source, range, columns, stride, scratch.last_row, scratch.between.data());
    between = scratch.between.data();
  }
  for (std::int64_t y = 0; y < rows.num_kept(); ++y) {
    sum_rows(between + (rows.first(y) - top) * stride, stride, rows.weights(y), rows.num_taps(), rows.precision(),
             row_bytes, target.row(y));
  }
}

}  // namespace trainer
