#pragma once

#include <string>

#include "engine/graph/preprocessing.h"

namespace trainer {

/// What only the data knows, for the start of a run, in lines that are not wrapped: what columns were taken for, what
/// stands for missing values, samples that were left out, the classes. Empty where there is nothing to tell.
std::string preprocessing_text(const Preprocessing& preprocessing);

}  // namespace trainer
