#include "datasets/tokens/token_windows.h"

#include <algorithm>
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

TokenWindows::TokenWindows(std::shared_ptr<const TokenFile> file, const TokenRange& range,
                           const TokenWindowsOptions& options)
    : Dataset({{DType::i32, Shape{options.length}}}, {DType::i32, Shape{options.length}}),
      file_(std::move(file)),
      range_(range),
      options_(options),
      size_(num_windows(range.size(), options.length, options.shifts)) {
  require_internal(range.begin >= 0 && range.end <= file_->num_tokens() && size_ > 0, "a text has a window");
}

std::unique_ptr<SampleReader> TokenWindows::make_reader() const { return std::make_unique<WindowReader>(*this); }

std::int64_t TokenWindows::begin_of(std::int64_t epoch, std::int64_t index) const {
  std::int64_t shift = 0;
  if (options_.shifts) {
    const std::int64_t places = std::min(options_.length, range_.size() - size_ * options_.length);
    const auto words = PhiloxStream{options_.seed, token_offset_stream, static_cast<std::uint32_t>(epoch)}.words(0);
    const std::uint64_t random = std::uint64_t{words[0]} << 32 | words[1];
    shift = static_cast<std::int64_t>(random % static_cast<std::uint64_t>(places));
  }
  return range_.begin + shift + index * options_.length;
}

void TokenWindows::read_in(std::int64_t epoch, std::int64_t index, std::span<std::byte* const> fields) const {
  auto* const tokens = reinterpret_cast<std::int32_t*>(fields[0]);
  auto* const targets = reinterpret_cast<std::int32_t*>(fields[1]);
  const std::int64_t begin = begin_of(epoch, index), length = options_.length;
  if (options_.masking) {
    file_->read(begin, length, options_.vocabulary, targets);
    std::copy_n(targets, length, tokens);
    return mask(epoch, index, tokens, targets);
  }
  file_->read(begin, 1, options_.vocabulary, tokens);
  file_->read(begin + 1, length, options_.vocabulary, targets);
  std::copy_n(targets, length - 1, tokens + 1);
}

void TokenWindows::read_classes_in(std::int64_t epoch, std::int64_t index, std::int32_t* classes) const {
  const std::int64_t first = begin_of(epoch, index) + (options_.masking ? 0 : 1);
  file_->read(first, options_.length, options_.vocabulary, classes);
  if (options_.masking) mask(epoch, index, nullptr, classes);
}

void TokenWindows::mask(std::int64_t epoch, std::int64_t index, std::int32_t* tokens, std::int32_t* targets) const {
  const TokenMasking& masking = *options_.masking;
  const PhiloxStream stream{options_.seed, token_mask_stream, options_.shifts ? static_cast<std::uint32_t>(epoch) : 0};
  const auto words_of = [&](std::int64_t i) {
    return stream.words(static_cast<std::uint64_t>(index * options_.length + i));
  };
  const auto uniform = [](std::uint32_t word) { return (word >> 8) * (1.0 / 16777216.0); };
  const std::int64_t certain = words_of(0)[3] % options_.length;
  for (std::int64_t i = 0; i < options_.length; ++i) {
    const auto words = words_of(i);
    if (i != certain && uniform(words[0]) >= masking.share) {
      targets[i] = masking.ignored;
    } else if (tokens != nullptr) {
      const double kind = uniform(words[1]);
      if (kind < 0.8) tokens[i] = masking.token;
      if (kind >= 0.8 && kind < 0.9) tokens[i] = static_cast<std::int32_t>(words[2] % options_.vocabulary);
    }
  }
}

}  // namespace trainer
