#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "datasets/image/image.h"

namespace trainer {

// Letters of 5×8 pixels for pictures, the last row for what reaches below the line.

inline constexpr std::int64_t glyph_height = 8, glyph_width = 5, glyph_step = 6;

/// Draws a text in black into an RGB image, its upper left corner at (top, left), each pixel a square of `scale`; what
/// lies outside the image is left out. Of what is not in ASCII, or has no letter here, a box is drawn for each
/// character.
void draw_text(Image& image, std::int64_t top, std::int64_t left, std::int64_t scale, std::string_view text);

}  // namespace trainer
