#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

// Reads TensorBoard's event files, by https://protobuf.dev/programming-guides/encoding and the record format alone.

namespace trainer {

/// Bit by bit, from the polynomial.
inline std::uint32_t slow_crc32c(std::string_view bytes) {
  std::uint32_t rest = 0xffffffff;
  for (const char byte : bytes) {
    rest ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) rest = (rest & 1U) != 0 ? (rest >> 1U) ^ 0x82f63b78U : rest >> 1U;
  }
  return rest ^ 0xffffffffU;
}

inline std::uint32_t slow_masked(std::string_view bytes) {
  const std::uint32_t crc = slow_crc32c(bytes);
  return ((crc >> 15U) | (crc << 17U)) + 0xa282ead8U;
}

/// The data of all whole records; empty where a checksum is wrong.
inline std::vector<std::string> records_of(std::string_view file) {
  std::vector<std::string> records;
  while (!file.empty()) {
    std::uint64_t length = 0;
    std::uint32_t of_length = 0, of_data = 0;
    if (file.size() < 16) return {};
    std::memcpy(&length, file.data(), 8);
    std::memcpy(&of_length, file.data() + 8, 4);
    if (of_length != slow_masked(file.substr(0, 8)) || file.size() < length + 16) return {};
    const std::string_view data = file.substr(12, length);
    std::memcpy(&of_data, file.data() + 12 + length, 4);
    if (of_data != slow_masked(data)) return {};
    records.emplace_back(data);
    file.remove_prefix(length + 16);
  }
  return records;
}

/// A message's fields, by number: of integers their value, of all else the bytes.
struct WireMessage {
  struct WireField {
    std::uint64_t integer = 0;
    std::string bytes;
  };
  std::multimap<int, WireField> fields;

  explicit WireMessage(std::string_view data) {
    const auto varint = [&data] {
      std::uint64_t value = 0;
      for (unsigned shift = 0; !data.empty(); shift += 7) {
        const auto byte = static_cast<unsigned char>(data.front());
        data.remove_prefix(1);
        value |= static_cast<std::uint64_t>(byte & 0x7fU) << shift;
        if (byte < 0x80) break;
      }
      return value;
    };
    while (!data.empty()) {
      const std::uint64_t tag = varint();
      WireField field;
      std::size_t length = (tag & 7U) == 1 ? 8 : 4;
      if ((tag & 7U) == 0) {
        field.integer = varint();
        length = 0;
      } else if ((tag & 7U) == 2) {
        length = varint();
      }
      field.bytes = data.substr(0, length);
      data.remove_prefix(std::min(length, data.size()));
      fields.emplace(static_cast<int>(tag >> 3U), std::move(field));
    }
  }
  bool has(int field) const { return fields.contains(field); }
  std::string bytes(int field) const { return has(field) ? fields.find(field)->second.bytes : ""; }
  std::int64_t integer(int field) const {
    return has(field) ? static_cast<std::int64_t>(fields.find(field)->second.integer) : 0;
  }
  template <typename Number>
  std::vector<Number> numbers(int field) const {
    const std::string all = bytes(field);
    std::vector<Number> result(all.size() / sizeof(Number));
    std::memcpy(result.data(), all.data(), result.size() * sizeof(Number));
    return result;
  }
  WireMessage message(int field) const { return WireMessage(bytes(field)); }
  std::vector<WireMessage> messages(int field) const {
    std::vector<WireMessage> all;
    const auto [begin, end] = fields.equal_range(field);
    for (auto each = begin; each != end; ++each) all.emplace_back(each->second.bytes);
    return all;
  }
};

}  // namespace trainer
