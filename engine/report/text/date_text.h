#pragma once

#include <cstdint>
#include <string>

namespace trainer {

/// "2026-11-25" of seconds since 1970, up to the year 9999, in UTC.
std::string date_text(std::int64_t seconds);

}  // namespace trainer
