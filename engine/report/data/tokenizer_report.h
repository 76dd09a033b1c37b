#pragma once

#include <cstdint>
#include <string>

#include "engine/report/text/style.h"

namespace trainer {

/// What is told of a tokenizer that was learned from files.
struct TokenizerTrainingReport {
  std::uint32_t asked_size = 0, vocabulary_size = 0;
  std::uint64_t num_merges = 0, num_special = 0;
  std::uint64_t num_files = 0, num_bytes = 0, num_pieces = 0;  ///< pieces that differ
  double seconds = 0;                                          ///< of the processor, with reading
  std::string output;
};

/// What is told of a text that was encoded.
struct EncodingReport {
  std::string tokenizer, file;
  std::uint32_t vocabulary_size = 0;  ///< one more than the highest id
  std::uint64_t num_bytes = 0, num_tokens = 0, num_special = 0;
  std::uint64_t num_distinct = 0;  ///< tokens of the vocabulary that occur
  double seconds = 0;              ///< of the processor, without reading and writing
  std::string output;              ///< empty: nothing was written
  std::string format;
  int bits = 0;
};

std::string tokenizer_training_report(const TokenizerTrainingReport& report, const Style& style);
/// {"event": "tokenizer", …}
std::string tokenizer_training_json(const TokenizerTrainingReport& report);

std::string encoding_report(const EncodingReport& report, const Style& style);
/// {"event": "encoding", …}
std::string encoding_json(const EncodingReport& report);

}  // namespace trainer
