#pragma once

#include <cstddef>
#include <string>

#include "datasets/text/tokenizer.h"

namespace trainer {

inline constexpr std::size_t most_tokenizer_file_bytes = std::size_t{64} << 20U;

/// Reads a byte-level BPE tokenizer: a `tokenizer.json` as `tokenizers` writes it and the hub holds it, GPT-2's
/// `vocab.json` with `merges.txt` beside it, or a folder with either.
///
/// Of `tokenizer.json` are read: model (BPE: vocab, merges as "a b" or ["a", "b"], ignore_merges), added_tokens, and
/// pre_tokenizer: ByteLevel with its own expression or without, alone or at the end of a Sequence of Split (with a
/// Regex or a String, Isolated) and Digits; normalizer NFC. Refused is what would make decode(encode(x)) another text,
/// or is not byte-level: other normalizers, add_prefix_space, dropout, byte_fallback, prefixes and suffixes of
/// subwords, WordPiece, Unigram, WordLevel, Metaspace, single_word, lstrip and rstrip of added tokens, and a vocabulary
/// that lacks a byte. What a post_processor puts around texts is not put there.
///
/// `vocab.json` and `merges.txt` are cut by GPT-2's expression; <|endoftext|>, where it is there, is a special token.
///
/// Throws DataError with the file and the place.
Tokenizer load_tokenizer(const std::string& path);

}  // namespace trainer
