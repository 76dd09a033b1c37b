#pragma once

#include <cstdint>
#include <string_view>

namespace trainer {

/// FNV-1a of 64 bits: tells what files and settings something was made of; not meant against who wants them to collide.
class IdentityHash {
 public:
  void add(std::string_view bytes) {
    for (const char byte : bytes) value_ = (value_ ^ static_cast<std::uint8_t>(byte)) * 0x100000001B3ULL;
    add_number(bytes.size());
  }
  void add_number(std::uint64_t number) {
    for (int i = 0; i < 8; ++i) value_ = (value_ ^ (number >> (8 * i) & 0xFF)) * 0x100000001B3ULL;
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xCBF29CE484222325ULL;
};

}  // namespace trainer
