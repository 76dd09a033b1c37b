#include "datasets/tokens/token_windows.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <utility>

#include "datasets/permutation.h"

namespace trainer {
namespace {

class WindowReader final : public SampleReader {
 public:
  explicit WindowReader(const TokenWindows& windows) : windows_(windows) {}
  void read(std::int64_t epoch, std::int64_t index, std::span<std::byte* const> fields) override {
    windows_.read_in(epoch, index, fields);
  }
  void read_classes(std::int64_t epoch, std::int64_t index, std::int32_t* classes) override {
    windows_.read_classes_in(epoch, index, classes);
  }

 private:
  const TokenWindows& windows_;
};

}  // namespace

std::int64_t num_windows(std::int64_t num_tokens, std::int64_t length, bool shifts) {
  if (num_tokens <= length) return 0;
  return shifts ? std::max<std::int64_t>(1, num_tokens / length - 1) : (num_tokens - 1) / length;
}

namespace {

/// Calls function(begin) for each padded document, and returns where the last one ends.
template <typename Function>
std::int64_t for_each_document(const TokenFile& file, const TokenRange& range, std::int32_t first, std::int64_t length,
                               bool predicts, Function&& function) {
  std::array<std::int32_t, 4096> tokens{};
  std::int64_t begin = range.begin;
  const auto end_at = [&](std::int64_t end) {
    for (; begin < end; begin = std::min(begin + length, end)) {
      // Nothing stands behind the last token of all.
      if (predicts && begin + 1 == range.end) return;
      function(begin);
    }
  };
  for (std::int64_t from = range.begin; from < range.end;) {
    const std::int64_t count = std::min<std::int64_t>(std::ssize(tokens), range.end - from);
    file.read(from, count, std::numeric_limits<std::int64_t>::max(), tokens.data());
    for (std::int64_t i = 0; i < count; ++i)
      if (tokens[static_cast<std::size_t>(i)] == first) end_at(from + i);
    from += count;
  }
  end_at(range.end);
  return begin;
}

}  // namespace

std::vector<std::int64_t> begins_of_documents(const TokenFile& file, const TokenRange& range, std::int32_t first,
                                              std::int64_t length, bool predicts) {
  std::vector<std::int64_t> begins;
  begins.reserve(static_cast<std::size_t>(num_documents(file, range, first, length, predicts) + 1));
  begins.push_back(
      for_each_document(file, range, first, length, predicts, [&](std::int64_t begin) { begins.push_back(begin); }));
  return begins;
}

std::int64_t num_documents(const TokenFile& file, const TokenRange& range, std::int32_t first, std::int64_t length,
                           bool predicts) {
  std::int64_t count = 0;
  for_each_document(file, range, first, length, predicts, [&](std::int64_t) { ++count; });
  return count;
}

TokenWindows::TokenWindows(std::shared_ptr<const TokenFile> file, const TokenRange& range,
                           const TokenWindowsOptions& options)
    : Dataset({{DType::i32, Shape{options.length}}}, {DType::i32, Shape{options.length}}),
      file_(std::move(file)),
      range_(range),
      options_(options),
      size_(num_windows(range.size(), options.length, options.shifts)) {
  if (is_padded()) {
    begins_ = begins_of_documents(*file_, range, options.documents->first, options.length, !options.masking);
    size_ = std::ssize(begins_) - 1;
  }
  require_internal(range.begin >= 0 && range.end <= file_->num_tokens() && size_ > 0, "a text has a window");
}

std::unique_ptr<SampleReader> TokenWindows::make_reader() const { return std::make_unique<WindowReader>(*this); }

std::int64_t TokenWindows::shift_of(std::int64_t epoch) const {
  if (!options_.shifts) return 0;
  const std::int64_t places = std::min(options_.length, range_.size() - size_ * options_.length);
  const auto words = PhiloxStream{options_.seed, token_offset_stream, static_cast<std::uint32_t>(epoch)}.words(0);
  const std::uint64_t random = std::uint64_t{words[0]} << 32 | words[1];
  return static_cast<std::int64_t>(random % static_cast<std::uint64_t>(places));
}

TokenRange TokenWindows::range_of(std::int64_t epoch, std::int64_t index) const {
  if (is_padded()) return {begins_[static_cast<std::size_t>(index)], begins_[static_cast<std::size_t>(index) + 1]};
  const std::int64_t begin = range_.begin + shift_of(epoch) + index * options_.length;
  return {begin, begin + options_.length};
}

void TokenWindows::read_targets(const TokenRange& of, std::int32_t* targets) const {
  TokenRange read = of;
  if (!options_.masking) read = {of.begin + 1, std::min(of.end + 1, range_.end)};
  file_->read(read.begin, read.size(), options_.vocabulary, targets);
  std::fill(targets + read.size(), targets + options_.length, options_.ignored);
}

void TokenWindows::read_in(std::int64_t epoch, std::int64_t index, std::span<std::byte* const> fields) const {
  auto* const tokens = reinterpret_cast<std::int32_t*>(fields[0]);
  auto* const targets = reinterpret_cast<std::int32_t*>(fields[1]);
  const TokenRange of = range_of(epoch, index);
  read_targets(of, targets);
  if (options_.masking) {
    std::copy_n(targets, of.size(), tokens);
  } else {
    file_->read(of.begin, 1, options_.vocabulary, tokens);
    std::copy_n(targets, of.size() - 1, tokens + 1);
  }
  if (is_padded()) std::fill(tokens + of.size(), tokens + options_.length, *options_.documents->pad);
  if (options_.masking) mask(epoch, index, tokens, targets);
}

void TokenWindows::read_classes_in(std::int64_t epoch, std::int64_t index, std::int32_t* classes) const {
  read_targets(range_of(epoch, index), classes);
  if (options_.masking) mask(epoch, index, nullptr, classes);
}

bool TokenWindows::is_text(std::int32_t token) const {
  return !options_.documents || (token != options_.documents->first && token != options_.documents->pad);
}

void TokenWindows::mask(std::int64_t epoch, std::int64_t index, std::int32_t* tokens, std::int32_t* targets) const {
  const TokenMasking& masking = *options_.masking;
  const PhiloxStream stream{options_.seed, token_mask_stream, options_.shifts ? static_cast<std::uint32_t>(epoch) : 0};
  const auto words_of = [&](std::int64_t i) {
    return stream.words(static_cast<std::uint64_t>(index * options_.length + i));
  };
  const auto uniform = [](std::uint32_t word) { return (word >> 8) * (1.0 / 16777216.0); };
  const auto may_count = [&](std::int32_t target) { return target != options_.ignored && is_text(target); };
  const auto num_text = std::count_if(targets, targets + options_.length, may_count);
  const std::int64_t certain = num_text > 0 ? words_of(0)[3] % num_text : -1;
  std::int64_t place = 0;  // in the text
  for (std::int64_t i = 0; i < options_.length; ++i) {
    if (!may_count(targets[i])) {
      targets[i] = options_.ignored;
      continue;
    }
    const auto words = words_of(i);
    if (place++ != certain && uniform(words[0]) >= masking.share) {
      targets[i] = options_.ignored;
    } else if (tokens != nullptr) {
      const double kind = uniform(words[1]);
      if (kind < 0.8) tokens[i] = masking.token;
      if (kind < 0.8 || kind >= 0.9) continue;
      const auto drawn = static_cast<std::int32_t>(words[2] % options_.vocabulary);
      if (is_text(drawn)) tokens[i] = drawn;
    }
  }
}

}  // namespace trainer
