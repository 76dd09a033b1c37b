#pragma once

#include <string>

#include "datasets/text/tokenizer.h"

namespace trainer {

/// A `tokenizer.json` that load_tokenizer and `tokenizers` read, with a newline at the end.
std::string json_of_tokenizer(const TokenizerDefinition& definition);

}  // namespace trainer
