#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace trainer {

/// The bytes of a Protocol Buffers message, field by field, as https://protobuf.dev/programming-guides/encoding has
/// them: of wire types a variable-length integer (0), bytes behind their length (2) and 32 bits (5).
class ProtobufMessage {
 public:
  /// Also of enums and bools. A negative number takes ten bytes.
  void add_integer(int field, std::int64_t value) {
    add_tag(field, 0);
    add_varint(static_cast<std::uint64_t>(value));
  }
  void add_float(int field, float value) {
    add_tag(field, 5);
    add_fixed(std::bit_cast<std::uint32_t>(value));
  }
  void add_double(int field, double value) {
    add_tag(field, 1);
    add_fixed(std::bit_cast<std::uint64_t>(value));
  }
  /// A repeated field, packed.
  void add_doubles(int field, std::span<const double> values) {
    begin_bytes(field, static_cast<std::int64_t>(values.size() * sizeof(double)));
    for (const double value : values) add_fixed(std::bit_cast<std::uint64_t>(value));
  }
  /// Of strings, bytes and messages.
  void add_bytes(int field, std::string_view bytes) {
    begin_bytes(field, static_cast<std::int64_t>(bytes.size()));
    bytes_ += bytes;
  }
  /// The field's beginning alone: `num_bytes` are to follow.
  void begin_bytes(int field, std::int64_t num_bytes) {
    add_tag(field, 2);
    add_varint(static_cast<std::uint64_t>(num_bytes));
  }

  const std::string& bytes() const { return bytes_; }
  /// Begins anew, and keeps the memory.
  void clear() { bytes_.clear(); }

 private:
  void add_tag(int field, unsigned wire_type) { add_varint(static_cast<std::uint64_t>(field) << 3U | wire_type); }
  /// The lowest byte first.
  template <typename Bits>
  void add_fixed(Bits bits) {
    for (std::size_t i = 0; i < sizeof(Bits); ++i, bits >>= 8U) bytes_ += static_cast<char>(bits & 0xFFU);
  }
  void add_varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7U) bytes_ += static_cast<char>(value | 0x80U);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

}  // namespace trainer
