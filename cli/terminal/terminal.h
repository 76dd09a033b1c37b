#pragma once

#include <cstdio>
#include <string_view>

#include "engine/report/text/style.h"

namespace trainer {

bool is_terminal(std::FILE* stream);

/// A pipe or socket: a write fails only where nobody reads any more.
bool is_pipe(std::FILE* stream);

/// Whether lines of the stream can be replaced: a terminal, and not a dumb one.
bool can_redraw(std::FILE* stream);

/// Columns of the terminal behind the stream now; 100 where there is none.
int terminal_width(std::FILE* stream);

/// Colour on a terminal that has it and without NO_COLOR in the environment (https://no-color.org); reports use at
/// most 100 columns.
Style style_for(std::FILE* stream);

// Note [What reaches a terminal]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Names of files, messages of libraries and what files hold can have sequences that a terminal obeys. So the command
// line prints by these two functions alone, which scripts/check_layers.py sees to: what people read is made harmless
// where it is written, and not where somebody thought of it. The screen of `trainer top` is curses' (curses_screen.h),
// whose lines are made harmless where they are put together: FrameLine in engine/report/live/frame.h.

/// What people read: of what a terminal would obey only the colours of paint() go through, and the rest is written out
/// (engine/config/text/utf8_text.h). False where the stream does not take it.
bool write_text(std::FILE* stream, std::string_view text);

/// What programs read, and the moves below: as it is.
bool write_exactly(std::FILE* stream, std::string_view bytes);

inline constexpr std::string_view line_start = "\r";
inline constexpr std::string_view erased_line = "\r\x1b[2K";
inline constexpr std::string_view erased_line_above = "\x1b[1A\x1b[2K";

}  // namespace trainer
