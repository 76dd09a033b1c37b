#pragma once

#include <cstdint>
#include <string>

#include "datasets/text/tokenizer.h"
#include "engine/config/experiment.h"

namespace trainer {

// Note [Texts that are tokenized once]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// The tokens of a text are kept in a file, in llm.c's format, that later runs and others beside this one use. Its name
// is a hash of what decides them: the text's path, size and time of change, and the tokenizer. It is written under a
// name of its own and moved to its place when it is whole, so that a run may be killed at any moment: what is there is
// whole, and of two that make it at once one goes unused. A text that is changed has another file; old ones are
// nobody's.

/// The file of the tokens of the text at `path`, any bytes, or gzip of them; in `folder`, empty: where caches are kept.
/// Made where it is not there. DataError with the file's name.
std::string tokenized_text(const std::string& path, const Tokenizer& tokenizer, const std::string& folder);

/// `bytes`, or what load_tokenizer() reads.
Tokenizer tokenizer_named(const std::string& name);
/// What names data.tokenizer to it.
std::string tokenizer_name(const DataConfig& config);

}  // namespace trainer
