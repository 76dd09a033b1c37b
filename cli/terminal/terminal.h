#pragma once

#include <cstdio>

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

}  // namespace trainer
