#include "engine/files/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <tuple>

#include "engine/config/text/utf8_text.h"

namespace trainer {
namespace {

struct StoredType {
  std::string_view name;
  std::uint64_t bytes;
};
constexpr StoredType stored_types[] = {{"F64", 8}, {"F32", 4}, {"F16", 2},  {"BF16", 2},    {"I64", 8},
                                       {"I32", 4}, {"I16", 2}, {"I8", 1},   {"U64", 8},     {"U32", 4},
                                       {"U16", 2}, {"U8", 1},  {"BOOL", 1}, {"F8_E5M2", 1}, {"F8_E4M3", 1}};

constexpr std::size_t longest_name = 1024;  ///< of a tensor, in bytes

struct Entry {
  std::string name;
  std::string dtype;
  std::vector<std::uint64_t> shape, offsets;
};

/// Takes the header event by event: anything but the format's own structure ends the parse at once, so that a hostile
/// header costs no more memory than its own length.
class HeaderHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<Entry> entries;
  std::map<std::string, std::string> metadata;
  std::string problem;

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool number_integer(number_integer_t) override { return unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { return unexpected("a fraction"); }
  bool binary(binary_t&) override { return unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (state_ != State::numbers) return unexpected("a number");
    std::vector<std::uint64_t>& numbers = field_ == "shape" ? entries.back().shape : entries.back().offsets;
    if (numbers.size() == 64) return fail("more than 64 dimensions");
    numbers.push_back(value);
    return true;
  }
  bool string(string_t& value) override {
    if (state_ == State::metadata) {
      metadata[field_] = value;
      return true;
    }
    if (state_ != State::tensor || field_ != "dtype") return unexpected("a string");
    entries.back().dtype = value;
    return true;
  }
  bool start_object(std::size_t) override {
    switch (state_) {
      case State::begin:
        state_ = State::top;
        return true;
      case State::top:
        state_ = field_ == "__metadata__" ? State::metadata : State::tensor;
        if (state_ == State::tensor) entries.push_back({.name = field_, .dtype = {}, .shape = {}, .offsets = {}});
        seen_fields_.clear();
        return true;
      default:
        return unexpected("an object");
    }
  }
  bool key(string_t& name) override {
    if (state_ == State::top) {
      if (name.size() > longest_name)
        return fail(fmt::format("a name of {} bytes; at most {} are read", name.size(), longest_name));
      if (!seen_names_.emplace(name, true).second) return fail(fmt::format("'{}' occurs twice", name));
    } else {
      if (!seen_fields_.emplace(name, true).second) {
        return fail(fmt::format("'{}' occurs twice in '{}'", name, state_ == State::tensor ? entries.back().name : ""));
      }
      if (state_ == State::tensor && name != "dtype" && name != "shape" && name != "data_offsets") {
        return fail(fmt::format("tensor '{}' has an unknown field '{}'", entries.back().name, name));
      }
    }
    field_ = name;
    return true;
  }
  bool end_object() override {
    if (state_ == State::tensor && seen_fields_.size() != 3) {
      return fail(fmt::format("tensor '{}' lacks dtype, shape or data_offsets", entries.back().name));
    }
    state_ = state_ == State::top ? State::end : State::top;
    return true;
  }
  bool start_array(std::size_t) override {
    if (state_ != State::tensor || field_ == "dtype") return unexpected("a list");
    state_ = State::numbers;
    return true;
  }
  bool end_array() override {
    state_ = State::tensor;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return fail(fmt::format("the header is not JSON (byte {})", position + 8));
  }

 private:
  enum class State : std::uint8_t { begin, top, metadata, tensor, numbers, end };

  bool fail(std::string what) {
    problem = std::move(what);
    return false;
  }
  bool unexpected(const char* what) { return fail(fmt::format("the header has {} where none belongs", what)); }

  State state_ = State::begin;
  std::string field_;
  std::map<std::string, bool> seen_names_, seen_fields_;
};

std::uint64_t element_bytes_of(const Entry& entry, const std::string& path) {
  for (const StoredType& stored : stored_types)
    if (stored.name == entry.dtype) return stored.bytes;
  throw unusable_safetensors(path,
                             fmt::format("tensor '{}' has dtype {}, which is not supported", entry.name, entry.dtype));
}

/// The entry's shape, whose size in bytes is what its range holds.
Shape shape_of(const Entry& entry, const std::string& path) {
  if (entry.shape.size() > static_cast<std::size_t>(Shape::max_rank)) {
    throw unusable_safetensors(path, fmt::format("tensor '{}' has {} dimensions, at most {} are supported", entry.name,
                                                 entry.shape.size(), Shape::max_rank));
  }
  if (entry.offsets.size() != 2 || entry.offsets[0] > entry.offsets[1]) {
    throw unusable_safetensors(path, fmt::format("tensor '{}' has no valid data_offsets", entry.name));
  }
  std::uint64_t num_bytes = element_bytes_of(entry, path);
  std::vector<std::int64_t> dims;
  for (const std::uint64_t dim : entry.shape) {
    if (dim > (std::uint64_t{1} << 60) || __builtin_mul_overflow(num_bytes, dim, &num_bytes)) {
      throw unusable_safetensors(path, fmt::format("tensor '{}' has a shape that no file can hold", entry.name));
    }
    dims.push_back(static_cast<std::int64_t>(dim));
  }
  if (num_bytes != entry.offsets[1] - entry.offsets[0]) {
    throw unusable_safetensors(path, fmt::format("tensor '{}' needs {} bytes, its data_offsets span {}", entry.name,
                                                 num_bytes, entry.offsets[1] - entry.offsets[0]));
  }
  return Shape(std::span<const std::int64_t>(dims));
}

}  // namespace

DataError unusable_safetensors(const std::string& path, std::string_view what) {
  return DataError(fmt::format("{}: not a usable safetensors file: {}", path, printable(what)));
}

SafetensorsHeader read_safetensors_header(const std::string& path, std::uint64_t file_bytes, const ReadAtOffset& read) {
  if (file_bytes < 10) throw unusable_safetensors(path, fmt::format("it has only {} bytes", file_bytes));
  unsigned char prefix[8];
  if (!read(0, sizeof(prefix), prefix)) throw unusable_safetensors(path, "the header length cannot be read");
  std::uint64_t header_bytes = 0;
  for (int i = 0; i < 8; ++i) header_bytes |= std::uint64_t{prefix[i]} << (8 * i);
  if (header_bytes > most_safetensors_header_bytes) {
    throw unusable_safetensors(path, fmt::format("it declares a header of {} bytes, at most {} are allowed",
                                                 header_bytes, most_safetensors_header_bytes));
  }
  if (header_bytes > file_bytes - 8) {
    throw unusable_safetensors(
        path, fmt::format("it is cut off: the header needs {} bytes, {} are there", header_bytes, file_bytes - 8));
  }
  std::string text(header_bytes, '\0');
  if (!read(8, header_bytes, text.data()) || text.empty() || text[0] != '{') {
    throw unusable_safetensors(path, "the header does not begin with '{'");
  }
  HeaderHandler handler;
  if (!nlohmann::json::sax_parse(text, &handler)) throw unusable_safetensors(path, handler.problem);

  std::sort(handler.entries.begin(), handler.entries.end(),
            [](const Entry& a, const Entry& b) { return std::tie(a.offsets, a.name) < std::tie(b.offsets, b.name); });
  const std::uint64_t data_bytes = file_bytes - 8 - header_bytes;
  std::uint64_t covered = 0;
  SafetensorsHeader header;
  for (const Entry& entry : handler.entries) {
    const Shape shape = shape_of(entry, path);
    if (entry.offsets[0] != covered) {
      throw unusable_safetensors(
          path,
          fmt::format("tensor '{}' begins at byte {} of the data where {} was expected: {}", entry.name,
                      entry.offsets[0], covered, entry.offsets[0] < covered ? "tensors overlap" : "there is a hole"));
    }
    covered = entry.offsets[1];
    if (covered > data_bytes) {
      throw unusable_safetensors(
          path, fmt::format("it is cut off: tensor '{}' ends at byte {} of the data, which has {}", entry.name, covered,
                            data_bytes));
    }
    header.entries.push_back({entry.name, entry.dtype, shape, 8 + header_bytes + entry.offsets[0]});
  }
  if (covered != data_bytes) {
    throw unusable_safetensors(path,
                               fmt::format("{} bytes after the last tensor belong to none", data_bytes - covered));
  }
  header.metadata = std::move(handler.metadata);
  return header;
}

}  // namespace trainer
