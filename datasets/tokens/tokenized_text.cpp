#include "datasets/tokens/tokenized_text.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <new>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "datasets/dataset_format.h"
#include "datasets/identity_hash.h"
#include "datasets/input_file.h"
#include "datasets/text/text_cut.h"
#include "datasets/text/text_encoder.h"
#include "datasets/text/tokenizer_file.h"
#include "datasets/tokens/token_file.h"
#include "engine/errors.h"
#include "engine/files/cache_folder.h"

namespace trainer {
namespace {

/// What such a file begins with: llm.c's header, and what tells it from those of others. It depends on nothing but the
/// text and the tokenizer, since a resumed run knows its data by the file's bytes.
class TokensHeader {
 public:
  TokensHeader() = default;
  TokensHeader(TokenId num_ids, std::uint32_t num_tokens) {
    const std::array<std::uint32_t, 3> start = token_header(is_wide(num_ids), num_tokens);
    std::copy(start.begin(), start.end(), words_.begin());
    words_[3] = made_here;
    words_[4] = num_ids;
  }
  /// Whether tokens have 32 bits each, not 16.
  static bool is_wide(TokenId num_ids) { return num_ids > (1U << 16U); }
  std::uint32_t num_tokens() const { return words_[2]; }
  std::uint64_t num_file_bytes() const {
    return sizeof words_ + std::uint64_t{num_tokens()} * (is_wide(words_[4]) ? 4 : 2);
  }

  friend bool operator==(const TokensHeader&, const TokensHeader&) = default;

 private:
  static constexpr std::uint32_t made_here = 0x31747874;  // "txt1"

  std::array<std::uint32_t, token_header_words> words_{};
};
static_assert(sizeof(TokensHeader) == 4 * token_header_words);

/// Whether a whole file of such tokens is there. What else may be in its place is not opened for long: a pipe would be
/// waited for.
bool is_made(const std::string& path, TokenId num_ids) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return false;
  TokensHeader header;
  struct stat status {};
  const bool is_read = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) &&
                       ::pread(descriptor, &header, sizeof header, 0) == static_cast<ssize_t>(sizeof header);
  ::close(descriptor);
  const TokensHeader expected(num_ids, header.num_tokens());
  return is_read && header == expected && static_cast<std::uint64_t>(status.st_size) == header.num_file_bytes();
}

/// A file that is written where nobody meets it and moved to its place when it is whole. Where it is not finished
/// nothing is left of it; of a process that is killed neither, where the file system has files without a name.
class TokensBesideTheirPlace {
 public:
  TokensBesideTheirPlace(const std::string& folder, const std::string& name, TokenId num_ids)
      : path_((std::filesystem::path(folder) / name).string()), num_ids_(num_ids) {
    if (::access("/proc/self/fd", X_OK) == 0)
      descriptor_ = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0644);
    if (descriptor_ < 0) {
      temporary_ = path_ + ".XXXXXX";
      descriptor_ = ::mkostemp(temporary_.data(), O_CLOEXEC);
    }
    if (descriptor_ < 0 || ::fchmod(descriptor_, 0644) != 0) fail();
    const TokensHeader unfinished;
    write(&unfinished, sizeof unfinished);
  }
  ~TokensBesideTheirPlace() { close(); }
  TokensBesideTheirPlace(const TokensBesideTheirPlace&) = delete;
  TokensBesideTheirPlace& operator=(const TokensBesideTheirPlace&) = delete;

  void append(std::span<const TokenId> ids) {
    num_tokens_ += ids.size();
    if (num_tokens_ > std::numeric_limits<std::uint32_t>::max())
      throw DataError(fmt::format("a text has more than the {} tokens that '{}' can have; train on parts of it",
                                  std::numeric_limits<std::uint32_t>::max(), path_));
    if (TokensHeader::is_wide(num_ids_)) return write(ids.data(), ids.size_bytes());
    narrow_.assign(ids.begin(), ids.end());
    write(narrow_.data(), narrow_.size() * sizeof(std::uint16_t));
  }
  void finish() {
    const TokensHeader header(num_ids_, static_cast<std::uint32_t>(num_tokens_));
    if (::pwrite(descriptor_, &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header)) fail();
    // A machine that stops must not leave a whole name over a part of the tokens.
    if (::fsync(descriptor_) != 0 && errno != EINVAL) fail();
    if (temporary_.empty())
      give_name();
    else if (::rename(temporary_.c_str(), path_.c_str()) != 0)
      fail();
    temporary_.clear();
    close();
  }

 private:
  void write(const void* bytes, std::size_t num_bytes) {
    const auto* from = static_cast<const char*>(bytes);
    while (num_bytes > 0) {
      const ssize_t written = ::write(descriptor_, from, num_bytes);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail();
      from += written;
      num_bytes -= static_cast<std::size_t>(written);
    }
  }
  void give_name() {
    const std::string unnamed = fmt::format("/proc/self/fd/{}", descriptor_);
    while (::linkat(AT_FDCWD, unnamed.c_str(), AT_FDCWD, path_.c_str(), AT_SYMLINK_FOLLOW) != 0) {
      if (errno != EEXIST) fail();
      if (is_made(path_, num_ids_)) return;  // by another run, meanwhile
      if (::unlink(path_.c_str()) != 0 && errno != ENOENT) fail();
    }
  }
  void close() {
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
    if (!temporary_.empty()) ::unlink(std::exchange(temporary_, {}).c_str());
  }
  [[noreturn]] void fail() {
    const int reason = errno;
    close();
    throw DataError(fmt::format("cannot write the tokens '{}': {}; data.cache_folder names another place", path_,
                                std::strerror(reason)));
  }

  std::string path_, temporary_;
  TokenId num_ids_;
  int descriptor_ = -1;
  std::uint64_t num_tokens_ = 0;
  std::vector<std::uint16_t> narrow_;
};

/// What tells whether a text is the one that it was.
struct TextFacts {
  std::uint64_t num_bytes = 0;
  std::uint64_t changed_seconds = 0, changed_nanoseconds = 0;

  friend bool operator==(const TextFacts&, const TextFacts&) = default;
};

TextFacts facts_of_text(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0)
    throw DataError(fmt::format("cannot open '{}': {}", path, std::strerror(errno)));
  if (!S_ISREG(status.st_mode))
    throw DataError(fmt::format("'{}' is no file that a text can be read from twice", path));
  return {static_cast<std::uint64_t>(status.st_size), static_cast<std::uint64_t>(status.st_mtim.tv_sec),
          static_cast<std::uint64_t>(status.st_mtim.tv_nsec)};
}

void add_tokenizer(IdentityHash& hash, const TokenizerDefinition& definition) {
  hash.add_number(definition.expressions.size());
  for (const std::string& expression : definition.expressions) hash.add(expression);
  hash.add_number(definition.vocabulary.size());
  for (const VocabularyEntry& entry : definition.vocabulary) {
    hash.add_number(entry.id);
    hash.add(entry.bytes);
    hash.add_number(entry.is_found ? 1 : 0);
  }
  hash.add_number(definition.merges.size());
  for (const TokenMerge& merge : definition.merges)
    for (const TokenId id : {merge.left, merge.right, merge.result}) hash.add_number(id);
  hash.add_number(definition.added_tokens.size());
  for (const AddedToken& token : definition.added_tokens) {
    hash.add_number(token.id);
    hash.add(token.content);
    hash.add_number((token.is_special ? 2 : 0) + (token.is_normalized ? 1 : 0));
  }
  hash.add_number((definition.composes ? 2 : 0) + (definition.ignores_merges ? 1 : 0));
}

/// Of what decides the tokens of a text.
std::uint64_t key_of_text(const std::string& path, const TextFacts& facts, const Tokenizer& tokenizer) {
  std::error_code failed;
  const std::filesystem::path whole = std::filesystem::canonical(path, failed);
  IdentityHash hash;
  hash.add("tokens of a text, 1");
  hash.add(failed ? path : whole.string());
  for (const std::uint64_t fact : {facts.num_bytes, facts.changed_seconds, facts.changed_nanoseconds})
    hash.add_number(fact);
  add_tokenizer(hash, tokenizer.definition());
  return hash.value();
}

void tokenize_file(const std::string& path, const Tokenizer& tokenizer, TokensBesideTheirPlace& tokens) {
  constexpr std::size_t piece_bytes = std::size_t{1} << 20;
  InputFile file(path);
  TextEncoder encoder(tokenizer);
  const TextCut cut(tokenizer);
  const auto take = [&](std::span<const TokenId> ids) { tokens.append(ids); };
  std::string text;
  std::size_t piece = piece_bytes;
  if (!cut.is_known() && !file.compressed()) text.reserve(file.largest_size());
  for (bool is_last = false; !is_last;) {
    const std::size_t size = text.size();
    text.resize(size + piece);
    const std::size_t got = file.read(reinterpret_cast<std::byte*>(text.data()) + size, piece);
    text.resize(size + got);
    is_last = got < piece;
    const std::size_t stretch = is_last ? text.size() : cut.last(text);
    encoder.encode(std::string_view(text).substr(0, stretch), SpecialTokens::as_text, take);
    text.erase(0, stretch);
    // Where there is no place to cut, each look for one is at twice as much.
    piece = cut.is_known() ? std::max(piece_bytes, text.size()) : piece_bytes;
  }
}

}  // namespace

Tokenizer tokenizer_named(const std::string& name) {
  return name == "bytes" ? Tokenizer::bytes() : load_tokenizer(name);
}

std::string tokenizer_name(const DataConfig& config) {
  return config.tokenizer == "bytes" ? config.tokenizer : data_path(config, config.tokenizer);
}

std::string tokenized_text(const std::string& path, const Tokenizer& tokenizer, const std::string& folder) {
  std::string place = folder;
  if (place.empty()) {
    const std::optional<std::string> caches = cache_folder();
    if (!caches)
      throw DataError("there is no place for the tokens of a text; set data.cache_folder, HOME or XDG_CACHE_HOME");
    place = (std::filesystem::path(*caches) / "tokens").string();
  }
  const TextFacts facts = facts_of_text(path);
  const std::uint64_t key = key_of_text(path, facts, tokenizer);
  const std::string name = fmt::format("{:016x}.bin", key);
  std::string made = (std::filesystem::path(place) / name).string();
  if (is_made(made, tokenizer.num_ids())) return made;
  std::error_code failed;
  std::filesystem::create_directories(place, failed);
  if (failed)
    throw DataError(fmt::format("cannot make the folder '{}' of tokens: {}; data.cache_folder names another place",
                                place, failed.message()));
  TokensBesideTheirPlace tokens(place, name, tokenizer.num_ids());
  try {
    tokenize_file(path, tokenizer, tokens);
  } catch (const std::bad_alloc&) {
    throw HostOutOfMemory(fmt::format("the tokens of '{}'", path), 0, /*depends_on_batches=*/false);
  }
  if (facts_of_text(path) != facts)
    throw DataError(fmt::format("'{}' was changed while it was read; start again", path));
  tokens.finish();
  return made;
}

}  // namespace trainer
