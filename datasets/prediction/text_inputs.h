#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/prediction/input_paths.h"
#include "datasets/prediction/prediction_input.h"
#include "datasets/text/tokenizer.h"
#include "engine/graph/data_description.h"

namespace trainer {

// Note [Texts to predict from]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// A text is a file, or a line of one, and becomes tokens as training made them: special tokens are text, and bytes that
// are no UTF-8 are what the tokenizer makes of bytes. It is cut as an evaluation cuts a text, Note [Windows of a text]
// in datasets/tokens/token_windows.h: window w of `length` tokens begins at token w · length, and each of its tokens is
// asked for the one behind it. An evaluation has the windows whose every token has one behind it; here the text's end
// is a window, too, and its last token is asked for what comes next. What a window lacks is filled up with token 0,
// which no token in front of it sees.
//
// Each window is an input of the stream, those of a text one behind the other, and the last says so. A text is encoded
// a stretch at a time where its tokenizer is known to allow it (Note [Texts in stretches] in datasets/text/text_cut.h):
// its bytes are held, and the tokens of a stretch. Of a file of tokens one window is.

/// Texts in memory, and lines, are of at most so many bytes.
inline constexpr std::int64_t most_text_bytes = std::int64_t{64} << 20;

/// Whether a file is called as texts are: .txt, .text or .md, plain or .gz.
bool is_called_text(std::string_view path);
/// Whether it is called as files of tokens are: .bin.
bool is_called_tokens(std::string_view path);

/// The windows of the texts that `paths` names, for a model that takes `input`. With `tokenizer` each file, plain or
/// gzip, is a text, or by_line each line of it, called "FILE:LINE"; without one each is a TokenFile. A text that cannot
/// be read, is empty, or has a name of something else (the other kind, an image, an array), is one input with that
/// error; one that fails behind some of its windows ends with it. ConfigError where the tokenizer has more tokens than
/// the model knows.
std::unique_ptr<InputStream> text_inputs(InputPaths paths, std::shared_ptr<const Tokenizer> tokenizer,
                                         const InputDescription& input, bool by_line);

/// Each token of a tokenizer as a row shows it: what is no text is written out, as are line feeds and tabs.
std::vector<std::string> shown_tokens(const Tokenizer& tokenizer);

}  // namespace trainer
