#pragma once

#include <string>

namespace trainer {

/// Refuses a file that holds weights in a format that trainer does not read, told by its first bytes whatever its name:
/// a DataError which names the format and, for what PyTorch saves (a pickle, alone or in a zip archive), has the line
/// that converts it, to paste. A pickle is a program that runs when it is read, which is why none is read here. Does
/// nothing for other files, and where there is none.
void refuse_foreign_weights(const std::string& path);

}  // namespace trainer
