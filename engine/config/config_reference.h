#pragma once

#include <string>
#include <string_view>

namespace trainer {

/// What `trainer config explain KEY` prints: type, default, range, meaning and an example of a key; the keys of a
/// section ("train", or "" for all); a layer ("conv2d") or its key ("conv2d.kernel"); a value that is a word, with the
/// keys that take it ("one_cycle"). Ends with a newline. Throws ConfigError with the nearest key where it is none of
/// them.
std::string explain_key(std::string_view key);

/// The key that is called so, here or by other programs, as a whole or by its last part: "train.batch_size" for "bs".
/// "" where there is none.
std::string key_called(std::string_view word);

/// JSON Schema (draft 2020-12) of the file format, indented, for completion in editors. Ends with a newline.
std::string config_json_schema();

/// The reference of every key and layer in Markdown; configs/README.md carries it between
/// `<!-- reference: begin -->` and `<!-- reference: end -->`.
std::string config_reference_markdown();

}  // namespace trainer
