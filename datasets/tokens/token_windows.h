#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "datasets/dataset.h"
#include "datasets/tokens/token_file.h"

namespace trainer {

// Note [Windows of a text]
// ~~~~~~~~~~~~~~~~~~~~~~~~
// A sample is a stretch of `length` tokens, and its target the same a token on. Those of an epoch lie one behind
// another, so that each token is met once, and what comes first in a window has no more in front of it in any other.
// Validation begins at the first token and has all windows that fit. Training begins each epoch somewhere else, at one
// of the first `length` tokens, drawn by Philox of (seed, epoch), so that a run cuts the text in as many ways as it has
// epochs; it has as many windows as fit from the last of these places, the same in every epoch, so up to two windows of
// tokens are left out of each. A text of fewer than two windows has one, at whatever places it fits.
//
// Padded samples are documents instead, whole: each begins where a token that begins documents stands, or where the
// text does. One of more than `length` tokens is several samples, one behind the other; one of fewer is filled up with
// a token whose targets do not count. The target of a document's last token is the one behind it, which begins the
// next; where the text ends it does not count, and a last document of one token is none, since nothing would be learned
// from it. Samples are the same in every epoch. What is kept of them is where each begins.
//
// Masked windows (Devlin et al., "BERT", 2019) are their own targets, of which a share counts: each token with that
// probability, and one of each window whatever is drawn. Of those that count 8 of 10 become the mask, 1 any token, and
// 1 stays. Tokens that begin documents or fill them up are left alone, and none becomes one. The numbers are Philox's
// of (seed, epoch, window), of validation those of epoch 0 at all times.

/// Tokens [begin, end) of a file.
struct TokenRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};

/// Of one epoch; 0 where not even one fits.
std::int64_t num_windows(std::int64_t num_tokens, std::int64_t length, bool shifts);

/// Tokens that stand for no text.
struct DocumentTokens {
  std::int32_t first = 0;             ///< of a document
  std::optional<std::int32_t> pad{};  ///< samples are documents, filled up with it
};

/// Where the samples of padded documents begin, and behind them where the last one ends. `predicts`: targets are the
/// tokens behind. Reads all of the range.
std::vector<std::int64_t> begins_of_documents(const TokenFile& file, const TokenRange& range, std::int32_t first,
                                              std::int64_t length, bool predicts);
/// How many there are.
std::int64_t num_documents(const TokenFile& file, const TokenRange& range, std::int32_t first, std::int64_t length,
                           bool predicts);

struct TokenMasking {
  std::int32_t token = 0;  ///< the mask
  double share = 0.15;     ///< of tokens that count
};

struct TokenWindowsOptions {
  std::int64_t length = 1;
  std::int64_t vocabulary = 1;
  bool shifts = false;  ///< from epoch to epoch: in training
  std::uint64_t seed = 0;
  std::int32_t ignored = -100;  ///< the target of what does not count
  std::optional<DocumentTokens> documents{};
  std::optional<TokenMasking> masking{};
};

/// The samples of a stretch of a file, windows or padded documents: i32 tokens (length) and the tokens behind each, or
/// masked. They are read when they are asked for; DataError for a token that is not of the vocabulary.
class TokenWindows final : public Dataset {
 public:
  TokenWindows(std::shared_ptr<const TokenFile> file, const TokenRange& range, const TokenWindowsOptions& options);

  std::int64_t size() const override { return size_; }
  void read(std::int64_t index, std::span<std::byte* const> fields) const override { read_in(0, index, fields); }
  void read_classes(std::int64_t index, std::int32_t* classes) const override { read_classes_in(0, index, classes); }
  std::unique_ptr<SampleReader> make_reader() const override;
  /// Of host memory.
  std::int64_t held_bytes() const { return static_cast<std::int64_t>(begins_.size() * sizeof(std::int64_t)); }
  std::optional<std::uint32_t> content_crc32() const override { return file_->checksum(); }

  void read_in(std::int64_t epoch, std::int64_t index, std::span<std::byte* const> fields) const;
  void read_classes_in(std::int64_t epoch, std::int64_t index, std::int32_t* classes) const;
  /// The file's tokens that a sample has.
  TokenRange range_of(std::int64_t epoch, std::int64_t index) const;

 private:
  bool is_padded() const { return options_.documents && options_.documents->pad; }
  std::int64_t shift_of(std::int64_t epoch) const;
  /// The targets of the tokens of `of`, as they stand in the file, and those that do not count.
  void read_targets(const TokenRange& of, std::int32_t* targets) const;
  /// Whether a token may be masked.
  bool is_text(std::int32_t token) const;
  /// Has the targets of a window that do not count ignored, and masks the others in `tokens`; null: not asked for.
  void mask(std::int64_t epoch, std::int64_t index, std::int32_t* tokens, std::int32_t* targets) const;

  std::shared_ptr<const TokenFile> file_;
  TokenRange range_;
  TokenWindowsOptions options_;
  std::vector<std::int64_t> begins_;  ///< of padded documents
  std::int64_t size_ = 0;
};

}  // namespace trainer
