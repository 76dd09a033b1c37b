#pragma once

#include <cstdint>

namespace trainer::test {

constexpr std::int64_t kib = 1024;
constexpr std::int64_t mib = 1024 * kib;
constexpr std::int64_t gib = 1024 * mib;

}  // namespace trainer::test
