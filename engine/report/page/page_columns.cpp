#include "engine/report/page/page_columns.h"

#include <bit>
#include <nlohmann/json.hpp>

namespace trainer {
namespace {

Json column_at(const char* kind, std::size_t at, std::size_t count) { return {{kind, at}, {"count", count}}; }

void append_varint(std::string& bytes, std::uint64_t value) {
  for (; value >= 128; value >>= 7) bytes += static_cast<char>(value % 128 + 128);
  bytes += static_cast<char>(value);
}

}  // namespace

Json PageColumns::integers(std::span<const std::int64_t> values) {
  const std::size_t at = bytes_.size();
  std::int64_t before = 0;
  for (const std::int64_t value : values) {
    const std::int64_t step = value - before;
    append_varint(bytes_, static_cast<std::uint64_t>(step) << 1 ^ static_cast<std::uint64_t>(step >> 63));
    before = value;
  }
  return column_at("integers", at, values.size());
}

Json PageColumns::numbers(std::span<const double> values) {
  const std::size_t at = bytes_.size();
  for (const double value : values) {
    const auto bits = std::bit_cast<std::uint64_t>(value);
    for (int shift = 0; shift < 64; shift += 8) bytes_ += static_cast<char>(bits >> shift & 0xff);
  }
  return column_at("numbers", at, values.size());
}

Json PageColumns::texts(std::span<const std::string> values) {
  std::vector<std::int64_t> lengths;
  lengths.reserve(values.size());
  for (const std::string& value : values) lengths.push_back(static_cast<std::int64_t>(value.size()));
  const std::size_t at = bytes_.size();
  integers(lengths);
  for (const std::string& value : values) bytes_ += value;
  return column_at("texts", at, values.size());
}

}  // namespace trainer
