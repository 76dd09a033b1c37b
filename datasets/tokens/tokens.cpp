#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "datasets/dataset_format.h"
#include "datasets/tokens/token_windows.h"

namespace trainer {
namespace {

/// The parts of the training file: without validation of its own a written split takes its end.
struct TokenParts {
  TokenRange train, validation;
};

TokenParts parts_of(const DataConfig& config, std::int64_t num_tokens) {
  const auto aside = std::llround(config.split * static_cast<double>(num_tokens));
  return {{0, num_tokens - aside}, {num_tokens - aside, num_tokens}};
}

std::int64_t windows_in(const DataConfig& config, const TokenFile& file, const TokenRange& range, bool shifts) {
  const std::int64_t windows = num_windows(range.size(), config.sequence_length, shifts);
  if (windows > 0) return windows;
  const bool is_part = range.size() != file.num_tokens();
  throw DataError(fmt::format("{}: {}{} tokens; a sample of data.sequence_length {} needs {}", file.path(),
                              is_part ? "a part of it has " : "", range.size(), config.sequence_length,
                              config.sequence_length + 1));
}

std::vector<std::string> token_files(const DataConfig& config) {
  std::vector<std::string> files{data_path(config, config.train)};
  if (!config.validation.empty()) files.push_back(data_path(config, config.validation));
  return files;
}

DatasetHeader inspect_tokens(const DataConfig& config) {
  const TokenFile train(data_path(config, config.train));
  const TokenParts parts = parts_of(config, train.num_tokens());
  DatasetHeader header;
  header.source = train.path();
  header.sample = {DType::i32, Shape{config.sequence_length}};
  header.target_shape = header.sample.shape;
  header.num_train = windows_in(config, train, parts.train, true);
  header.num_outputs = config.classes > 0 ? config.classes : train.largest_token() + 1;
  if (!config.validation.empty()) {
    const TokenFile validation(data_path(config, config.validation));
    header.num_validation = windows_in(config, validation, {0, validation.num_tokens()}, false);
    if (config.classes == 0) header.num_outputs = std::max(header.num_outputs, validation.largest_token() + 1);
  } else if (config.split > 0) {
    header.num_validation = windows_in(config, train, parts.validation, false);
  }
  if (header.num_outputs > std::numeric_limits<std::int32_t>::max())
    throw DataError(fmt::format("{}: token {} is larger than any vocabulary", header.source, header.num_outputs - 1));
  return header;
}

DatasetContents load_tokens(const DataConfig& config, std::uint64_t seed, const DatasetHeader& header) {
  const auto train = std::make_shared<const TokenFile>(data_path(config, config.train));
  const TokenParts parts = parts_of(config, train->num_tokens());
  TokenWindowsOptions options{
      .length = config.sequence_length, .vocabulary = header.num_outputs, .shifts = true, .seed = seed};
  windows_in(config, *train, parts.train, true);
  DatasetContents contents;
  contents.train = std::make_shared<TokenWindows>(train, parts.train, options);
  if (header.num_validation == 0) return contents;
  options.shifts = false;
  const bool has_own = !config.validation.empty();
  const auto file = has_own ? std::make_shared<const TokenFile>(data_path(config, config.validation)) : train;
  const TokenRange range = has_own ? TokenRange{0, file->num_tokens()} : parts.validation;
  windows_in(config, *file, range, false);
  contents.validation = std::make_shared<TokenWindows>(file, range, options);
  return contents;
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

}  // namespace trainer
