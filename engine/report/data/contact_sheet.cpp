#include "engine/report/data/contact_sheet.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "engine/config/text/utf8_text.h"
#include "engine/errors.h"
#include "engine/report/data/glyphs.h"
#include "engine/report/text/style.h"

namespace trainer {
namespace {

constexpr std::int64_t wanted_side = 128, sheet_margin = 6;
constexpr std::int64_t sheet_width = 1100;
constexpr std::uint8_t paper = 255, under_alpha = 128;

/// How pictures are shown: so many pixels for one, or one for so many each way.
struct Zoom {
  std::int64_t enlarged = 1, reduced = 1;

  std::int64_t of(std::int64_t side) const { return (side * enlarged + reduced - 1) / reduced; }
};

Zoom zoom_of(const Pair& size) {
  const std::int64_t side = std::max(size[0], size[1]);
  if (side <= wanted_side) return {std::max<std::int64_t>(1, wanted_side / side), 1};
  return {1, (side + wanted_side - 1) / wanted_side};
}

using Rgb = std::array<std::uint8_t, 3>;

Rgb colour_at(const Image& image, std::int64_t y, std::int64_t x) {
  const std::uint8_t* pixel = image.row(y) + x * image.channels();
  if (image.channels() == 1) return {pixel[0], pixel[0], pixel[0]};
  if (image.channels() == 3) return {pixel[0], pixel[1], pixel[2]};
  Rgb result{};
  for (std::size_t c = 0; c < result.size(); ++c)
    result[c] = static_cast<std::uint8_t>((pixel[c] * pixel[3] + under_alpha * (255 - pixel[3]) + 127) / 255);
  return result;
}

/// The mean of what a pixel of the sheet shows.
template <class ColourAt>
void draw_picture(Image& sheet, std::int64_t top, std::int64_t left, const Pair& size, const Zoom& zoom,
                  const ColourAt& colour_at) {
  for (std::int64_t y = 0; y < zoom.of(size[0]); ++y) {
    for (std::int64_t x = 0; x < zoom.of(size[1]); ++x) {
      const std::int64_t first_y = y * zoom.reduced / zoom.enlarged, first_x = x * zoom.reduced / zoom.enlarged;
      std::array<std::int64_t, 3> sums{};
      std::int64_t count = 0;
      for (std::int64_t dy = 0; dy < zoom.reduced && first_y + dy < size[0]; ++dy) {
        for (std::int64_t dx = 0; dx < zoom.reduced && first_x + dx < size[1]; ++dx, ++count) {
          const Rgb colour = colour_at(first_y + dy, first_x + dx);
          for (std::size_t c = 0; c < colour.size(); ++c) sums[c] += colour[c];
        }
      }
      std::uint8_t* pixel = sheet.row(top + y) + (left + x) * 3;
      for (std::size_t c = 0; c < sums.size(); ++c) pixel[c] = static_cast<std::uint8_t>((sums[c] + count / 2) / count);
    }
  }
}

std::string label_text(const LoadedData& data, const std::vector<std::byte>& target) {
  const TensorType& type = data.train->target_type();
  const std::vector<std::string>& names = data.preprocessing.classes;
  constexpr std::size_t most_told = 8;
  if (type.dtype == DType::i32) {
    if (type.shape.rank() > 0) return "";
    std::int32_t label = 0;
    std::memcpy(&label, target.data(), sizeof(label));
    const auto at = static_cast<std::size_t>(label);
    return label >= 0 && at < names.size() ? names[at] : fmt::format("{}", label);
  }
  std::vector<float> numbers(target.size() / sizeof(float));
  std::memcpy(numbers.data(), target.data(), target.size());
  std::string text;
  if (names.size() == numbers.size()) {  // several labels
    for (std::size_t i = 0; i < numbers.size(); ++i)
      if (numbers[i] > 0.5F) text += (text.empty() ? "" : ", ") + names[i];
    return text.empty() ? "-" : text;
  }
  for (std::size_t i = 0; i < std::min(numbers.size(), most_told); ++i)
    text += fmt::format("{}{:.4g}", i == 0 ? "" : ", ", numbers[i]);
  return text;
}

/// With a point where some is missing.
std::string cut_label(const std::string& label, std::size_t most_letters) {
  std::string cut = cut_to_width(printable(label), most_letters);
  constexpr std::string_view ellipsis = "…";
  if (cut.ends_with(ellipsis)) cut.replace(cut.size() - ellipsis.size(), ellipsis.size(), ".");
  return cut;
}

/// Of masks: a square and a name for each class, side by side.
struct Legend {
  static constexpr std::int64_t cell_width = 120, line_height = 14, square = 10;
  static constexpr std::size_t most_named = 24;

  std::int64_t num_columns(std::int64_t width) const { return std::max<std::int64_t>(1, width / cell_width); }
  std::int64_t height(std::int64_t width) const {
    const auto count = static_cast<std::int64_t>(std::min(names.size(), most_named));
    return (count + num_columns(width) - 1) / num_columns(width) * line_height;
  }
  void draw(Image& sheet, std::int64_t top) const {
    const std::int64_t columns = num_columns(sheet.width() - sheet_margin);
    for (std::size_t i = 0; i < std::min(names.size(), most_named); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      const std::int64_t y = top + at / columns * line_height, x = sheet_margin + at % columns * cell_width;
      const Rgb colour = colour_of_class(static_cast<std::int32_t>(i), static_cast<std::int64_t>(names.size()));
      for (std::int64_t row = y; row < y + square; ++row)
        for (std::int64_t column = x; column < std::min(x + square, sheet.width()); ++column)
          std::copy(colour.begin(), colour.end(), sheet.row(row) + column * 3);
      const auto most_letters = static_cast<std::size_t>((cell_width - square - 8) / glyph_step);
      draw_text(sheet, y + 1, x + square + 3, 1, cut_label(names[i], most_letters));
    }
  }

  std::vector<std::string> names;
};

}  // namespace

/// Hues as far apart as so many classes allow, the first class dark.
std::array<std::uint8_t, 3> colour_of_class(std::int32_t label, std::int64_t num_classes) {
  if (label < 0 || label >= num_classes) return {255, 255, 255};
  if (label == 0) return {40, 40, 40};
  const double hue =
      6.0 * static_cast<double>(label - 1) / static_cast<double>(std::max<std::int64_t>(num_classes - 1, 1));
  const auto channel = [&](double offset) {
    const double at = std::fmod(hue + offset, 6.0);
    const double level = std::clamp(std::abs(at - 3.0) - 1.0, 0.0, 1.0);
    return static_cast<std::uint8_t>(std::lround(60 + 180 * level));
  };
  return {channel(0), channel(4), channel(2)};
}

std::vector<std::string> class_names(const LoadedData& data) {
  std::vector<std::string> names = data.preprocessing.classes;
  for (std::int64_t i = static_cast<std::int64_t>(names.size()); i < data.description.num_outputs; ++i)
    names.push_back(fmt::format("{}", i));
  return names;
}

bool are_pictures(const TensorType& sample) {
  if (sample.dtype != DType::u8 || sample.shape.rank() != 3) return false;
  const std::int64_t channels = sample.shape[2];
  return channels == 1 || channels == 3 || channels == 4;
}

std::vector<ShownSample> read_shown_samples(const LoadedData& data, const Dataset& of,
                                            const std::vector<std::int64_t>& samples, std::int64_t epoch) {
  const TensorType& input = of.input_types().front();
  const TensorType& target_type = of.target_type();
  require_internal(are_pictures(input), "samples that are shown are pictures");
  const auto reader = of.make_reader();
  std::vector<std::byte> target(static_cast<std::size_t>(target_type.num_bytes()));
  std::vector<ShownSample> shown;
  for (const std::int64_t sample : samples) {
    ShownSample& each = shown.emplace_back();
    each.image.reshape(input.shape[0], input.shape[1], input.shape[2]);
    reader->read(epoch, sample, std::array{reinterpret_cast<std::byte*>(each.image.pixels().data()), target.data()});
    each.label = label_text(data, target);
    const bool is_mask = target_type == TensorType{DType::i32, Shape{input.shape[0], input.shape[1]}};
    if (!is_mask) continue;
    each.classes.resize(target.size() / sizeof(std::int32_t));
    std::memcpy(each.classes.data(), target.data(), target.size());
  }
  return shown;
}

Image contact_sheet(const std::vector<ShownSample>& samples, const std::vector<std::string>& classes) {
  require_internal(!samples.empty(), "a sheet shows a sample");
  const Pair size = samples.front().image.size();
  const Zoom zoom = zoom_of(size);
  const bool has_masks = !samples.front().classes.empty();
  const std::int64_t width = zoom.of(size[1]), height = zoom.of(size[0]);
  std::size_t longest_label = 0;
  for (const ShownSample& sample : samples) longest_label = std::max(longest_label, display_width(sample.label));
  const std::int64_t text_scale = static_cast<std::int64_t>(longest_label) * glyph_step * 2 <= width ? 2 : 1;
  const std::int64_t cell_width = (has_masks ? 2 * width + 2 : width) + sheet_margin;
  const std::int64_t cell_height = height + (has_masks ? 0 : glyph_height * text_scale + 3) + sheet_margin;
  const auto count = static_cast<std::int64_t>(samples.size());
  const std::int64_t num_columns = std::clamp<std::int64_t>((sheet_width - sheet_margin) / cell_width, 1, count);
  const std::int64_t num_rows = (count + num_columns - 1) / num_columns;
  const Legend legend{has_masks ? classes : std::vector<std::string>()};
  const std::int64_t grid_height = num_rows * cell_height + sheet_margin;
  const auto num_classes = static_cast<std::int64_t>(classes.size());
  Image sheet;
  sheet.reshape(grid_height + legend.height(num_columns * cell_width), num_columns * cell_width + sheet_margin, 3);
  std::fill(sheet.pixels().begin(), sheet.pixels().end(), paper);
  for (std::int64_t i = 0; i < count; ++i) {
    const ShownSample& sample = samples[static_cast<std::size_t>(i)];
    const std::int64_t top = sheet_margin + i / num_columns * cell_height,
                       left = sheet_margin + i % num_columns * cell_width;
    draw_picture(sheet, top, left, size, zoom,
                 [&](std::int64_t y, std::int64_t x) { return colour_at(sample.image, y, x); });
    if (has_masks) {
      draw_picture(sheet, top, left + width + 2, size, zoom, [&](std::int64_t y, std::int64_t x) {
        return colour_of_class(sample.classes[static_cast<std::size_t>(y * size[1] + x)], num_classes);
      });
      continue;
    }
    const auto most_letters = static_cast<std::size_t>(std::max<std::int64_t>(width / (glyph_step * text_scale), 1));
    draw_text(sheet, top + height + 3, left, text_scale, cut_label(sample.label, most_letters));
  }
  legend.draw(sheet, grid_height);
  return sheet;
}

}  // namespace trainer
