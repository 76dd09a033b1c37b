#include "datasets/arrays/array_field.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

namespace trainer {
namespace {

constexpr std::uint64_t most_bytes_read_through = std::uint64_t{1} << 30;
constexpr std::uint64_t num_crc_places = 1024, crc_place_bytes = std::uint64_t{256} << 10;
/// Elements that are converted at once, on the stack.
constexpr std::size_t most_converted = 1024;

bool becomes_floats(ArrayUse use) { return use == ArrayUse::numbers || use == ArrayUse::probabilities; }

/// Puts elements `first` … of a sample of (C, H, W) where they belong in (H, W, C).
template <class Value>
void write_interleaved(const Shape& of_sample, std::uint64_t first, const Value* values, std::size_t count,
                       Value* sample) {
  const auto num_channels = static_cast<std::uint64_t>(of_sample[2]);
  const auto plane = static_cast<std::uint64_t>(of_sample[0] * of_sample[1]);
  std::uint64_t channel = first / plane, pixel = first % plane;
  for (std::size_t i = 0; i < count; ++i) {
    sample[pixel * num_channels + channel] = values[i];
    if (++pixel < plane) continue;
    pixel = 0;
    ++channel;
  }
}

}  // namespace

TensorType ArrayFieldPlan::type() const {
  return {use == ArrayUse::pixels ? DType::u8 : use == ArrayUse::classes ? DType::i32 : DType::f32, of_sample};
}

std::int64_t ArrayFieldPlan::held_bytes(const StoredArray& array) const {
  if (use != ArrayUse::pixels && of_sample.num_elements() == 1)
    return array.shape[0] * static_cast<std::int64_t>(size_of(type().dtype));
  return array.is_deflated() ? static_cast<std::int64_t>(array.num_bytes()) : 0;
}

ArrayField::ArrayField(ArraySource source, const ArrayFieldPlan& plan)
    : source_(std::move(source)),
      plan_(plan),
      sample_elements_(static_cast<std::uint64_t>(plan.of_sample.num_elements())) {
  const Shape& shape = source_.array().shape;
  require_internal(shape.num_elements() / shape[0] == plan.of_sample.num_elements(),
                   "a sample has all of its elements");
}

void ArrayField::load(std::uint32_t crc) {
  const StoredArray& array = source_.array();
  const bool holds_values = plan_.use != ArrayUse::pixels && sample_elements_ == 1;
  if (holds_values) {
    held_.resize(static_cast<std::size_t>(plan_.held_bytes(array)));
  } else {
    source_.hold();
  }
  const std::string type = fmt::format("{}{}", name_of(array.element), numpy_text(array.shape));
  crc32_ = static_cast<std::uint32_t>(crc32_z(crc, reinterpret_cast<const Bytef*>(type.data()), type.size()));
  const bool is_small = array.num_bytes() <= most_bytes_read_through;
  if (is_small || holds_values || plan_.use == ArrayUse::classes || array.is_deflated()) {
    read_through();
  } else {
    sample_crc();
  }
  source_.file().check_unchanged();
}

void ArrayField::read_through() {
  const std::size_t element_bytes = size_of(source_.array().element);
  std::array<std::byte, most_converted * sizeof(float)> converted;
  uLong crc = crc32_;
  source_.for_each_piece([&](std::uint64_t first, std::span<const std::byte> bytes) {
    crc = crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
    if (plan_.use == ArrayUse::pixels) return;
    const std::size_t count = bytes.size() / element_bytes;
    for (std::size_t done = 0; done < count; done += most_converted) {
      const std::size_t step = std::min(most_converted, count - done);
      std::byte* const to = held_.empty() ? converted.data() : held_.data() + (first + done) * sizeof(float);
      convert(first + done, bytes.data() + done * element_bytes, step, to);
    }
  });
  crc32_ = static_cast<std::uint32_t>(crc);
}

void ArrayField::sample_crc() {
  const std::uint64_t last = source_.array().num_bytes() - crc_place_bytes;
  std::vector<std::byte> bytes(crc_place_bytes);
  uLong crc = crc32_;
  for (std::uint64_t place = 0; place < num_crc_places; ++place) {
    const std::uint64_t begin =
        last / (num_crc_places - 1) * place + last % (num_crc_places - 1) * place / (num_crc_places - 1);
    source_.read(begin, bytes.size(), bytes.data());
    crc = crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  }
  crc32_ = static_cast<std::uint32_t>(crc);
}

void ArrayField::read(std::int64_t index, std::byte* to) const {
  if (!held_.empty()) {
    std::memcpy(to, held_.data() + static_cast<std::size_t>(index) * sizeof(float), sizeof(float));
    return;
  }
  const bool is_as_stored =
      plan_.use == ArrayUse::pixels || (becomes_floats(plan_.use) && source_.array().element == ArrayElement::f32);
  if (!is_as_stored || plan_.channels_first) {
    read_converted(index, to);
    return;
  }
  const std::uint64_t element_bytes = size_of(source_.array().element);
  const std::uint64_t first = static_cast<std::uint64_t>(index) * sample_elements_;
  source_.read(first * element_bytes, static_cast<std::size_t>(sample_elements_ * element_bytes), to);
  if (plan_.use != ArrayUse::pixels)
    check_floats(first, reinterpret_cast<const float*>(to), static_cast<std::size_t>(sample_elements_), to);
}

void ArrayField::read_converted(std::int64_t index, std::byte* to) const {
  constexpr std::size_t widest = 8;
  alignas(widest) std::array<std::byte, most_converted * widest> stored;
  alignas(widest) std::array<std::byte, most_converted * sizeof(float)> converted;
  const std::uint64_t element_bytes = size_of(source_.array().element);
  const std::uint64_t first = static_cast<std::uint64_t>(index) * sample_elements_;
  for (std::uint64_t done = 0; done < sample_elements_; done += most_converted) {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(most_converted, sample_elements_ - done));
    source_.read((first + done) * element_bytes, static_cast<std::size_t>(count * element_bytes), stored.data());
    if (plan_.use == ArrayUse::pixels) {
      write_interleaved(plan_.of_sample, done, stored.data(), count, to);
    } else if (plan_.channels_first) {
      convert(first + done, stored.data(), count, converted.data());
      write_interleaved(plan_.of_sample, done, reinterpret_cast<const float*>(converted.data()), count,
                        reinterpret_cast<float*>(to));
    } else {
      convert(first + done, stored.data(), count, to + done * sizeof(float));
    }
  }
}

void ArrayField::convert(std::uint64_t first, const std::byte* from, std::size_t count, std::byte* to) const {
  const ArrayElement element = source_.array().element;
  if (plan_.use == ArrayUse::classes) {
    const std::size_t bad = convert_to_classes(element, from, count, plan_.limits, reinterpret_cast<std::int32_t*>(to));
    if (bad < count) refuse_class(first + bad, from + bad * size_of(element));
    return;
  }
  auto* const floats = reinterpret_cast<float*>(to);
  convert_to_numbers(element, from, count, floats);
  check_floats(first, floats, count, from);
}

void ArrayField::check_floats(std::uint64_t first, const float* values, std::size_t count,
                              const std::byte* stored) const {
  std::size_t bad = first_not_finite(values, count);
  if (bad == count && plan_.use == ArrayUse::probabilities)
    bad = static_cast<std::size_t>(std::find_if(values, values + count, [](float x) { return !(x >= 0 && x <= 1); }) -
                                   values);
  if (bad < count) refuse_number(first + bad, stored + bad * size_of(source_.array().element));
}

void ArrayField::refuse_number(std::uint64_t element, const std::byte* value) const {
  const std::string text = element_text(source_.array().element, value);
  const std::string index = source_.index_text(element);
  if (plan_.use == ArrayUse::probabilities)
    throw source_.error(
        fmt::format("target {} at index {} is no probability; expected 0 to 1, or loss: mse for numbers", text, index));
  throw source_.error(fmt::format("{} at index {}; expected finite numbers up to {} in size (f32)", text, index,
                                  std::numeric_limits<float>::max()));
}

void ArrayField::refuse_class(std::uint64_t element, const std::byte* value) const {
  const std::string text = element_text(source_.array().element, value);
  const std::int32_t ignored = plan_.limits.ignored;
  const bool ignores_a_label = ignored >= plan_.limits.num_classes || (ignored < 0 && ignored != ClassLimits{}.ignored);
  const bool is_mask = plan_.of_sample.rank() > 0;
  throw source_.error(fmt::format(
      "label {} at index {}, expected 0 to {}{} ({}){}", text, source_.index_text(element),
      plan_.limits.num_classes - 1, ignores_a_label ? fmt::format(" or {}, which is ignored", ignored) : "",
      plan_.limits_from,
      is_mask && !ignores_a_label ? fmt::format("; loss.ignore_index={} leaves such pixels out", text) : ""));
}

std::int64_t count_classes(const ArraySource& source, std::int32_t ignored) {
  const StoredArray& array = source.array();
  std::int64_t largest = -1;
  source.for_each_piece([&](std::uint64_t /*first*/, std::span<const std::byte> bytes) {
    largest = largest_class(array.element, bytes.data(), bytes.size() / size_of(array.element), ignored, largest);
  });
  if (largest < 0) throw source.error("no label is 0 or more but what loss.ignore_index leaves out");
  constexpr std::int64_t most_classes = std::numeric_limits<std::int32_t>::max();
  if (largest >= most_classes)
    throw source.error(fmt::format("a label is {} or more, which is no class", most_classes));
  return largest + 1;
}

}  // namespace trainer
