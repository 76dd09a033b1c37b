#include "datasets/prediction/text_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <span>
#include <utility>

#include "datasets/image_files.h"
#include "datasets/input_file.h"
#include "datasets/prediction/sample_inputs.h"
#include "datasets/text/text_cut.h"
#include "datasets/text/text_encoder.h"
#include "datasets/tokens/token_file.h"
#include "engine/bytes.h"
#include "engine/config/text/utf8_text.h"
#include "engine/errors.h"

namespace trainer {
namespace {

constexpr std::size_t text_piece_bytes = std::size_t{1} << 20;

DataError too_long_file(const std::string& path) {
  return DataError(
      fmt::format("{}: a text has at most {} here; 'trainer eval RUN --data {}' tells the loss of a longer one", path,
                  format_bytes(most_text_bytes), path));
}

/// The tokens of one text, from its begin on.
class TokenSupply {
 public:
  virtual ~TokenSupply() = default;
  TokenSupply(const TokenSupply&) = delete;
  TokenSupply& operator=(const TokenSupply&) = delete;

  /// Appends the next tokens until there are `count`, or the text ends. DataError.
  virtual void fill(std::vector<std::int32_t>& tokens, std::size_t count) = 0;

 protected:
  TokenSupply() = default;
};

class SuppliedFile final : public TokenSupply {
 public:
  SuppliedFile(const std::string& path, std::int64_t vocabulary) : file_(path), vocabulary_(vocabulary) {}

  void fill(std::vector<std::int32_t>& tokens, std::size_t count) override {
    const std::size_t had = tokens.size();
    if (had >= count) return;
    const std::int64_t more = std::min(static_cast<std::int64_t>(count - had), file_.num_tokens() - next_);
    tokens.resize(had + static_cast<std::size_t>(more));
    if (more > 0) file_.read(next_, more, vocabulary_, tokens.data() + had);
    next_ += more;
  }

 private:
  TokenFile file_;
  std::int64_t vocabulary_;
  std::int64_t next_ = 0;
};

/// A text in memory, encoded a stretch at a time.
class SuppliedText final : public TokenSupply {
 public:
  SuppliedText(std::string text, TextEncoder& encoder, const TextCut& cut)
      : text_(std::move(text)), encoder_(encoder), cut_(cut) {}

  void fill(std::vector<std::int32_t>& tokens, std::size_t count) override {
    while (tokens.size() < count) {
      if (taken_ == encoded_.size()) {
        if (begin_ == text_.size()) return;
        encode_stretch();
        continue;
      }
      const std::size_t more = std::min(count - tokens.size(), encoded_.size() - taken_);
      const auto first = encoded_.begin() + static_cast<std::ptrdiff_t>(taken_);
      tokens.insert(tokens.end(), first, first + static_cast<std::ptrdiff_t>(more));
      taken_ += more;
    }
  }

 private:
  void encode_stretch() {
    encoded_.clear();
    taken_ = 0;
    const std::string_view rest = std::string_view(text_).substr(begin_);
    std::size_t stretch = rest.size();
    if (cut_.is_known()) {
      for (std::size_t piece = text_piece_bytes; piece < rest.size(); piece *= 2) {
        stretch = cut_.last(rest.substr(0, piece));
        if (stretch > 0) break;
        stretch = rest.size();
      }
    }
    encoder_.encode(rest.substr(0, stretch), SpecialTokens::as_text, [this](std::span<const TokenId> ids) {
      for (const TokenId id : ids) encoded_.push_back(static_cast<std::int32_t>(id));
    });
    begin_ += stretch;
  }

  std::string text_;
  TextEncoder& encoder_;
  const TextCut& cut_;
  std::size_t begin_ = 0;  ///< of what is not encoded yet
  std::vector<std::int32_t> encoded_;
  std::size_t taken_ = 0;  ///< of these
};

/// All of a file.
std::string read_text(const std::string& path) {
  InputFile file(path);
  const auto most = static_cast<std::size_t>(most_text_bytes);
  if (!file.compressed() && file.largest_size() > most) throw too_long_file(path);
  std::string text;
  while (true) {
    const std::size_t size = text.size();
    text.resize(size + text_piece_bytes);
    const std::size_t got = file.read(reinterpret_cast<std::byte*>(text.data()) + size, text_piece_bytes);
    text.resize(size + got);
    if (text.size() > most) throw too_long_file(path);
    if (got < text_piece_bytes) return text;
  }
}

/// The lines of a file, without their ends: a line feed, and a carriage return in front of it.
class FileLines {
 public:
  explicit FileLines(const std::string& path) : file_(path), piece_(piece_bytes) {}

  enum class Next : std::uint8_t { line, too_long, none };

  /// The next line, whose number is then number(). DataError for what cannot be read, behind which nothing is.
  Next next(std::string& line) {
    line.clear();
    Next found = Next::none;  // the end of a file alone is no line
    ++number_;
    while (at_ < filled_ || refill()) {
      if (found == Next::none) found = Next::line;
      const char* const begin = reinterpret_cast<const char*>(piece_.data()) + at_;
      const auto* const end = static_cast<const char*>(std::memchr(begin, '\n', filled_ - at_));
      const std::size_t count = end == nullptr ? filled_ - at_ : static_cast<std::size_t>(end - begin);
      if (line.size() + count > static_cast<std::size_t>(most_text_bytes)) found = Next::too_long;
      if (found == Next::line) line.append(begin, count);
      at_ += count + (end == nullptr ? 0 : 1);
      if (end == nullptr) continue;
      if (line.ends_with('\r')) line.pop_back();
      break;
    }
    return found;
  }
  std::int64_t number() const { return number_; }

 private:
  static constexpr std::size_t piece_bytes = std::size_t{1} << 16;

  bool refill() {
    at_ = 0;
    filled_ = 0;
    filled_ = file_.read(piece_.data(), piece_.size());
    return filled_ > 0;
  }

  InputFile file_;
  std::vector<std::byte> piece_;
  std::size_t at_ = 0, filled_ = 0;
  std::int64_t number_ = 0;
};

class TextInputs final : public InputStream {
 public:
  TextInputs(InputPaths paths, std::shared_ptr<const Tokenizer> tokenizer, const InputDescription& input, bool by_line)
      : paths_(std::move(paths)),
        tokenizer_(std::move(tokenizer)),
        vocabulary_(input.num_indices),
        length_(static_cast<std::size_t>(input.type.num_elements())),
        by_line_(by_line) {
    if (!tokenizer_) return;
    if (static_cast<std::int64_t>(tokenizer_->num_ids()) > vocabulary_)
      throw ConfigError(fmt::format("the tokenizer has {} tokens, and the model knows {}: it is not its own",
                                    tokenizer_->num_ids(), vocabulary_));
    encoder_.emplace(*tokenizer_);
    cut_.emplace(*tokenizer_);
  }

  bool next(PredictionInput& input) override {
    try {
      if (!supply_ && !open_text()) return false;
      input.name = name_;
      input.below = below_;
      supply_->fill(tokens_, length_ + 1);
      if (tokens_.empty()) throw DataError(fmt::format("{}: is empty, and a text has a token", name_));
      take_window(input);
    } catch (const DataError& error) {
      fail(input, error.what());
    } catch (const std::bad_alloc&) {
      fail(input, name_ + ": the system has no memory left to read it");
    }
    return true;
  }
  std::vector<std::string> remarks() const override { return paths_.remarks(); }

 private:
  /// One window of the text has an error, and the text ends there.
  void fail(PredictionInput& input, std::string error) {
    input.name = name_;
    input.below = below_;
    input.error = std::move(error);
    close_text();
  }

  void close_text() {
    supply_.reset();
    tokens_.clear();
  }

  void take_window(PredictionInput& input) {
    const std::size_t count = std::min(tokens_.size(), length_);
    input.bytes.resize(length_ * sizeof(std::int32_t));  // zero: inputs begin without bytes
    std::memcpy(input.bytes.data(), tokens_.data(), count * sizeof(std::int32_t));
    input.window.num_tokens = static_cast<std::int64_t>(count);
    if (tokens_.size() == count) return close_text();
    input.window.behind = tokens_[count];
    tokens_.erase(tokens_.begin(), tokens_.begin() + static_cast<std::ptrdiff_t>(count));
  }

  /// False where there are no more. DataError.
  bool open_text() {
    while (true) {
      if (lines_) {
        if (open_line()) return true;
        continue;
      }
      if (!next_path()) return false;
      check_name();
      if (!tokenizer_) {
        supply_ = std::make_unique<SuppliedFile>(path_, vocabulary_);
        return true;
      }
      if (!by_line_) {
        supply_ = std::make_unique<SuppliedText>(read_text(path_), *encoder_, *cut_);
        return true;
      }
      lines_ = std::make_unique<FileLines>(path_);
    }
  }

  /// False behind the last one. DataError for a folder that cannot be read, which has a name then, too.
  bool next_path() {
    try {
      if (!paths_.next(path_, below_)) return false;
    } catch (const DataError&) {
      name_ = path_;
      throw;
    }
    name_ = path_;
    return true;
  }

  /// Any bytes are a text, and most are tokens, so that a file would not show for what it is not.
  void check_name() const {
    if (!tokenizer_ && is_called_text(path_))
      throw DataError(
          fmt::format("{}: is called a text, and the model takes files of tokens, .bin; "
                      "'trainer tokenizer encode' makes one of a text",
                      path_));
    const char* called = nullptr;
    if (tokenizer_ && is_called_tokens(path_)) called = "a file of tokens";
    if (is_called_image(path_)) called = "an image";
    if (is_called_array(path_)) called = "an array";
    if (called != nullptr)
      throw DataError(fmt::format("{}: is called {}, and the model takes {}", path_, called,
                                  tokenizer_ ? "texts" : "files of tokens, .bin"));
  }

  /// False behind the last one of a file. DataError.
  bool open_line() {
    std::string line;
    FileLines::Next found = FileLines::Next::none;
    try {
      found = lines_->next(line);
    } catch (...) {
      lines_.reset();
      name_ = path_;
      throw;
    }
    const std::int64_t number = lines_->number();
    if (found == FileLines::Next::none) {
      lines_.reset();
      name_ = path_;
      if (number == 1) throw DataError(fmt::format("{}: is empty, and has no line", path_));
      return false;
    }
    name_ = fmt::format("{}:{}", path_, number);
    if (found == FileLines::Next::too_long)
      throw DataError(fmt::format("{}: a line has at most {} here", name_, format_bytes(most_text_bytes)));
    supply_ = std::make_unique<SuppliedText>(std::move(line), *encoder_, *cut_);
    return true;
  }

  InputPaths paths_;
  const std::shared_ptr<const Tokenizer> tokenizer_;
  const std::int64_t vocabulary_;
  const std::size_t length_;
  const bool by_line_;
  std::optional<TextEncoder> encoder_;
  std::optional<TextCut> cut_;
  std::string path_, below_, name_;      ///< of the file, and of its text
  std::unique_ptr<FileLines> lines_;     ///< of that file
  std::unique_ptr<TokenSupply> supply_;  ///< of the text that the next window is of; null: a new one
  std::vector<std::int32_t> tokens_;     ///< of that text, from the next window on: up to one more than it has
};

std::string_view without_gz(std::string_view path) {
  if (path.ends_with(".gz")) path.remove_suffix(3);
  return path;
}

}  // namespace

bool is_called_text(std::string_view path) {
  path = without_gz(path);
  return path.ends_with(".txt") || path.ends_with(".text") || path.ends_with(".md");
}

bool is_called_tokens(std::string_view path) { return path.ends_with(".bin"); }

std::unique_ptr<InputStream> text_inputs(InputPaths paths, std::shared_ptr<const Tokenizer> tokenizer,
                                         const InputDescription& input, bool by_line) {
  require_internal(tokenizer || !by_line, "a file of tokens has no lines");
  return std::make_unique<TextInputs>(std::move(paths), std::move(tokenizer), input, by_line);
}

std::vector<std::string> shown_tokens(const Tokenizer& tokenizer) {
  std::vector<std::string> shown;
  shown.reserve(tokenizer.num_ids());
  for (TokenId id = 0; id < tokenizer.num_ids(); ++id) {
    std::string& token = shown.emplace_back();
    std::string_view rest = tokenizer.token_bytes(id);
    while (!rest.empty()) {
      const std::size_t plain = std::min(rest.find_first_of("\n\t"), rest.size());
      token += escaped(rest.substr(0, plain));
      if (plain < rest.size()) token += rest[plain] == '\n' ? "\\n" : "\\t";
      rest.remove_prefix(std::min(plain + 1, rest.size()));
    }
  }
  return shown;
}

}  // namespace trainer
