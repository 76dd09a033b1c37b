#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "datasets/dataset_format.h"
#include "datasets/tokens/token_windows.h"
#include "datasets/tokens/tokenized_text.h"

namespace trainer {
namespace {

/// The files that samples are windows of, and what messages call them.
struct TokenSource {
  std::string train, validation;  ///< files of tokens; the second is empty where there is none
  std::string train_name, validation_name;
  std::int64_t vocabulary = 0;                 ///< 0: as the files have it
  std::vector<std::int64_t> token_bytes = {};  ///< of texts: DatasetContents::token_bytes
};

/// The parts of the training file: without validation of its own a written split takes its end.
struct TokenParts {
  TokenRange train, validation;
};

TokenParts parts_of(const DataConfig& config, std::int64_t num_tokens) {
  const auto aside = std::llround(config.split * static_cast<double>(num_tokens));
  return {{0, num_tokens - aside}, {num_tokens - aside, num_tokens}};
}

std::int64_t samples_in(const DataConfig& config, const std::string& name, const TokenFile& file,
                        const TokenRange& range, bool shifts) {
  const std::int64_t length = config.sequence_length;
  const char* const part = range.size() != file.num_tokens() ? "a part of it has " : "";
  if (config.pad_token) {
    const auto first = static_cast<std::int32_t>(*config.document_token);
    const std::int64_t documents = num_documents(file, range, first, length, !config.mask_token);
    if (documents > 0) return documents;
    throw DataError(fmt::format("{}: {}{} token{}; a document needs {}", name, part, range.size(),
                                range.size() == 1 ? "" : "s", config.mask_token ? "one" : "two"));
  }
  const std::int64_t windows = num_windows(range.size(), length, shifts);
  if (windows > 0) return windows;
  throw DataError(fmt::format("{}: {}{} tokens; a sample of data.sequence_length {} needs {}", name, part, range.size(),
                              length, length + 1));
}

std::vector<std::string> token_files(const DataConfig& config) {
  std::vector<std::string> files{data_path(config, config.train)};
  if (!config.validation.empty()) files.push_back(data_path(config, config.validation));
  return files;
}

TokenSource source_of_tokens(const DataConfig& config) {
  const std::vector<std::string> files = token_files(config);
  const std::string validation = files.size() > 1 ? files[1] : "";
  return {files[0], validation, files[0], validation, config.classes, {}};
}

DatasetHeader header_of(const DataConfig& config, const TokenSource& source) {
  const TokenFile train(source.train);
  const TokenParts parts = parts_of(config, train.num_tokens());
  DatasetHeader header;
  header.source = source.train_name;
  header.sample = {DType::i32, Shape{config.sequence_length}};
  header.target_shape = header.sample.shape;
  header.num_train = samples_in(config, source.train_name, train, parts.train, true);
  header.num_outputs = source.vocabulary > 0 ? source.vocabulary : train.largest_token() + 1;
  if (!source.validation.empty()) {
    const TokenFile validation(source.validation);
    header.num_validation = samples_in(config, source.validation_name, validation, {0, validation.num_tokens()}, false);
    if (source.vocabulary == 0) header.num_outputs = std::max(header.num_outputs, validation.largest_token() + 1);
  } else if (config.split > 0) {
    header.num_validation = samples_in(config, source.train_name, train, parts.validation, false);
  }
  if (config.pad_token) header.held_bytes = bytes_of_document_begins(header);
  if (header.num_outputs > std::numeric_limits<std::int32_t>::max())
    throw DataError(fmt::format("{}: token {} is larger than any vocabulary", header.source, header.num_outputs - 1));
  return header;
}

DatasetContents contents_of(const DataConfig& config, std::uint64_t seed, const DatasetHeader& header,
                            const TokenSource& source) {
  const auto train = std::make_shared<const TokenFile>(source.train);
  const TokenParts parts = parts_of(config, train->num_tokens());
  TokenWindowsOptions options{
      .length = config.sequence_length, .vocabulary = header.num_outputs, .shifts = true, .seed = seed};
  options.ignored = config.ignored_target;
  if (config.mask_token) options.masking = {static_cast<std::int32_t>(*config.mask_token), config.mask_share};
  if (config.document_token) {
    options.documents = {static_cast<std::int32_t>(*config.document_token), std::nullopt};
    if (config.pad_token) options.documents->pad = static_cast<std::int32_t>(*config.pad_token);
  }
  samples_in(config, source.train_name, *train, parts.train, true);
  DatasetContents contents;
  contents.token_bytes = source.token_bytes;
  contents.train = std::make_shared<TokenWindows>(train, parts.train, options);
  if (header.num_validation == 0) return contents;
  options.shifts = false;
  const bool has_own = !source.validation.empty();
  const auto file = has_own ? std::make_shared<const TokenFile>(source.validation) : train;
  const TokenRange range = has_own ? TokenRange{0, file->num_tokens()} : parts.validation;
  samples_in(config, has_own ? source.validation_name : source.train_name, *file, range, false);
  contents.validation = std::make_shared<TokenWindows>(file, range, options);
  return contents;
}

DatasetHeader inspect_tokens(const DataConfig& config) { return header_of(config, source_of_tokens(config)); }

DatasetContents load_tokens(const DataConfig& config, std::uint64_t seed, const DatasetHeader& header) {
  return contents_of(config, seed, header, source_of_tokens(config));
}

/// Texts, made tokens where that has not been done.
TokenSource tokenized_source(const DataConfig& config) {
  const Tokenizer tokenizer = tokenizer_named(tokenizer_name(config));
  const auto num_ids = static_cast<std::int64_t>(tokenizer.num_ids());
  if (config.classes > 0 && config.classes < num_ids)
    throw data_config_error(
        config, fmt::format("data.classes {} is below the {} tokens of data.tokenizer", config.classes, num_ids),
        fmt::format("{} or more, or none", num_ids));
  const std::vector<std::string> files = token_files(config);
  TokenSource source{.train = tokenized_text(files[0], tokenizer, config.cache_folder),
                     .validation = "",
                     .train_name = files[0],
                     .validation_name = "",
                     .vocabulary = std::max(config.classes, num_ids),
                     .token_bytes = {}};
  for (TokenId id = 0; id < tokenizer.num_ids(); ++id)
    source.token_bytes.push_back(static_cast<std::int64_t>(tokenizer.token_bytes(id).size()));
  if (files.size() > 1) {
    source.validation = tokenized_text(files[1], tokenizer, config.cache_folder);
    source.validation_name = files[1];
  }
  return source;
}

TokenSource source_of_text(const DataConfig& config) {
  TokenSource source = tokenized_source(config);
  // What texts and the tokenizer have left on the heap would be measured as the program's own.
  malloc_trim(0);
  return source;
}

DatasetHeader inspect_text(const DataConfig& config) { return header_of(config, source_of_text(config)); }

DatasetContents load_text(const DataConfig& config, std::uint64_t seed, const DatasetHeader& header) {
  return contents_of(config, seed, header, source_of_text(config));
}

}  // namespace

DatasetFormat tokens_format() {
  DatasetFormat format;
  format.required_files = token_files;
  format.held_bytes = holds_nothing;
  format.inspect = inspect_tokens;
  format.load = load_tokens;
  return format;
}

DatasetFormat text_format() {
  DatasetFormat format;
  format.required_files = token_files;
  format.held_bytes = holds_nothing;
  format.inspect_reads_everything = true;
  format.inspect = inspect_text;
  format.load = load_text;
  return format;
}

}  // namespace trainer
