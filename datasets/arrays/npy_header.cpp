#include "datasets/arrays/npy_header.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>

#include "datasets/arrays/array_file.h"

namespace trainer {
namespace {

constexpr std::size_t most_npy_header_bytes = std::size_t{64} << 10;
constexpr std::size_t most_npy_dims = 64;

DataError unusable_npy(std::string_view source, std::string_view what) {
  return array_error(source, fmt::format("not a usable .npy array: {}", what));
}

/// Reads the literal from front to back.
class NpyLiteral {
 public:
  NpyLiteral(std::string_view source, std::string_view text) : source_(source), text_(text) {}

  NpyHeader read() {
    NpyHeader header;
    bool has_descr = false, has_order = false, has_shape = false;
    expect('{');
    while (!take('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr" && !has_descr) {
        header.descr = peek() == '[' || peek() == '(' ? bracketed() : quoted();
        has_descr = true;
      } else if (key == "fortran_order" && !has_order) {
        header.fortran_order = boolean();
        has_order = true;
      } else if (key == "shape" && !has_shape) {
        header.dims = integers();
        has_shape = true;
      } else {
        throw unusable_npy(source_, fmt::format("its header has an unexpected '{}'", key));
      }
      if (take(',')) continue;
      expect('}');
      break;
    }
    if (peek() != '\0') fail("the end of the header");
    if (!has_descr || !has_order || !has_shape)
      throw unusable_npy(source_, fmt::format("its header lacks '{}'", !has_descr   ? "descr"
                                                                       : !has_order ? "fortran_order"
                                                                                    : "shape"));
    return header;
  }

 private:
  [[noreturn]] void fail(std::string_view expected) const {
    throw unusable_npy(source_, fmt::format("at byte {} of its header's dict {} was expected", at_, expected));
  }
  /// The next character that is no space; NUL at the end.
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char wanted) {
    if (peek() != wanted) return false;
    ++at_;
    return true;
  }
  void expect(char wanted) {
    if (!take(wanted)) fail(fmt::format("'{}'", wanted));
  }
  std::string quoted() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') fail("a quoted text");
    const std::size_t begin = ++at_;
    const std::size_t end = text_.find(quote, begin);
    if (end == std::string_view::npos) fail("a closing quote");
    at_ = end + 1;
    return std::string(text_.substr(begin, end - begin));
  }
  /// The list of a structured dtype, as it stands there.
  std::string bracketed() {
    const std::size_t begin = at_;
    std::size_t depth = 0;
    while (true) {
      const char next = peek();
      if (next == '\0') fail("a closing bracket");
      if (next == '\'' || next == '"') {
        quoted();
        continue;
      }
      ++at_;
      if (next == '[' || next == '(') ++depth;
      if ((next == ']' || next == ')') && --depth == 0) return std::string(text_.substr(begin, at_ - begin));
    }
  }
  bool boolean() {
    peek();
    for (const auto& [word, value] : {std::pair<std::string_view, bool>{"True", true}, {"False", false}}) {
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += word.size();
      return value;
    }
    fail("True or False");
  }
  std::vector<std::uint64_t> integers() {
    std::vector<std::uint64_t> numbers;
    expect('(');
    while (!take(')')) {
      peek();
      std::uint64_t number = 0;
      const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), number);
      if (error != std::errc()) fail("a dimension from 0 to 2^64 − 1");
      at_ = static_cast<std::size_t>(end - text_.data());
      take('L');  // of files that Python 2 wrote
      if (numbers.size() == most_npy_dims) fail(fmt::format("at most {} dimensions", most_npy_dims));
      numbers.push_back(number);
      if (take(',')) continue;
      expect(')');
      break;
    }
    return numbers;
  }

  std::string_view source_;
  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

NpyHeader read_npy_header(std::string_view source, const ReadNext& read) {
  std::array<unsigned char, 8> start{};
  read(start.data(), start.size());
  if (std::string_view(reinterpret_cast<const char*>(start.data()), npy_magic.size()) != npy_magic)
    throw unusable_npy(source, "it does not begin with \\x93NUMPY");
  const int major = start[6], minor = start[7];
  if (major < 1 || major > 3 || minor != 0)
    throw unusable_npy(source, fmt::format("its format is {}.{}, expected 1.0, 2.0 or 3.0", major, minor));
  std::array<unsigned char, 4> length{};
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  read(length.data(), length_bytes);
  std::size_t text_bytes = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) text_bytes |= std::size_t{length[i]} << (8 * i);
  if (text_bytes > most_npy_header_bytes)
    throw unusable_npy(source, fmt::format("it declares a header of {} bytes, at most {} are read", text_bytes,
                                           most_npy_header_bytes));
  std::string text(text_bytes, '\0');
  read(text.data(), text.size());
  if (text.find('\0') != std::string::npos) throw unusable_npy(source, "its header holds a zero byte");
  NpyHeader header = NpyLiteral(source, text).read();
  header.num_bytes = start.size() + length_bytes + text_bytes;
  return header;
}

}  // namespace trainer
