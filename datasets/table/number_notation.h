#pragma once

#include <string_view>

namespace trainer {

/// Of a text that is no number to number_in() but that people take for one ("1,234.5", "3,14", "$ 5", "12 kg", "45%",
/// "(7)", "0x1f", "inf"): what would have to change, "is written with a unit or a currency". Empty for other texts,
/// such as ranges ("10-19"), dates, times and ordinals ("3rd").
std::string_view odd_notation(std::string_view text);

}  // namespace trainer
