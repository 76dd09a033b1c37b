#include "engine/train/files/safetensors.h"

#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "engine/config/text/utf8_text.h"
#include "engine/errors.h"

namespace trainer {
namespace {

struct DTypeName {
  DType type;
  std::string_view name;
};
constexpr DTypeName dtype_names[] = {{DType::f32, "F32"}, {DType::f16, "F16"}, {DType::bf16, "BF16"}, {DType::u8, "U8"},
                                     {DType::i32, "I32"}, {DType::i64, "I64"}, {DType::f64, "F64"}};

/// Types of the format that no tensor of trainer has.
struct ForeignType {
  std::string_view name;
  std::uint64_t bytes;
};
constexpr ForeignType foreign_types[] = {{"BOOL", 1}, {"I8", 1},  {"I16", 2},     {"U16", 2},
                                         {"U32", 4},  {"U64", 8}, {"F8_E5M2", 1}, {"F8_E4M3", 1}};

std::string_view file_name_of(DType type) {
  for (const DTypeName& entry : dtype_names) {
    if (entry.type == type) return entry.name;
  }
  throw InternalError("internal error: a dtype without a safetensors name");
}

DataError write_error(const std::string& path) {
  return DataError(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
}
DataError damaged_tensors(const std::string& path, std::string_view what) {
  return DataError(fmt::format("{}: not a usable safetensors file: {}", path, printable(what)));
}

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

/// The entry's type; none of a foreign one.
std::optional<DType> dtype_of(const Entry& entry) {
  for (const DTypeName& known : dtype_names)
    if (known.name == entry.dtype) return known.type;
  return std::nullopt;
}

std::uint64_t element_bytes_of(const Entry& entry, const std::string& path) {
  if (const std::optional<DType> type = dtype_of(entry)) return size_of(*type);
  for (const ForeignType& foreign : foreign_types)
    if (foreign.name == entry.dtype) return foreign.bytes;
  throw damaged_tensors(path, fmt::format("tensor '{}' has dtype {}, which is not supported", entry.name, entry.dtype));
}

/// The entry's shape, whose size in bytes is what its range holds.
Shape shape_of(const Entry& entry, const std::string& path) {
  if (entry.shape.size() > static_cast<std::size_t>(Shape::max_rank)) {
    throw damaged_tensors(path, fmt::format("tensor '{}' has {} dimensions, at most {} are supported", entry.name,
                                            entry.shape.size(), Shape::max_rank));
  }
  if (entry.offsets.size() != 2 || entry.offsets[0] > entry.offsets[1]) {
    throw damaged_tensors(path, fmt::format("tensor '{}' has no valid data_offsets", entry.name));
  }
  std::uint64_t num_bytes = element_bytes_of(entry, path);
  std::vector<std::int64_t> dims;
  for (const std::uint64_t dim : entry.shape) {
    if (dim > (std::uint64_t{1} << 60) || __builtin_mul_overflow(num_bytes, dim, &num_bytes)) {
      throw damaged_tensors(path, fmt::format("tensor '{}' has a shape that no file can hold", entry.name));
    }
    dims.push_back(static_cast<std::int64_t>(dim));
  }
  if (num_bytes != entry.offsets[1] - entry.offsets[0]) {
    throw damaged_tensors(path, fmt::format("tensor '{}' needs {} bytes, its data_offsets span {}", entry.name,
                                            num_bytes, entry.offsets[1] - entry.offsets[0]));
  }
  return Shape(std::span<const std::int64_t>(dims));
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::string& path, std::span<const NamedTensor> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : path_(path), file_(std::fopen(path.c_str(), "wb")) {
  if (!file_) throw write_error(path_);
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::int64_t offset = 0;
  for (const NamedTensor& tensor : tensors) {
    const std::int64_t end = offset + tensor.type.num_bytes();
    header[tensor.name] = {{"dtype", file_name_of(tensor.type.dtype)},
                           {"shape", std::vector<std::int64_t>(tensor.type.shape.begin(), tensor.type.shape.end())},
                           {"data_offsets", {offset, end}}};
    offset = end;
  }
  bytes_to_come_ = offset;
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const std::uint64_t length = text.size();
  unsigned char prefix[8];
  for (int i = 0; i < 8; ++i) prefix[i] = static_cast<unsigned char>(length >> (8 * i));
  write(prefix, sizeof(prefix));
  write(text.data(), length);
}

void SafetensorsWriter::append(const void* bytes, std::int64_t num_bytes) {
  require_internal(num_bytes <= bytes_to_come_, "no more is written than was announced");
  bytes_to_come_ -= num_bytes;
  write(bytes, static_cast<std::uint64_t>(num_bytes));
}

void SafetensorsWriter::finish() {
  require_internal(bytes_to_come_ == 0, "every announced tensor is written");
  if (std::fflush(file_.get()) != 0 || fsync(fileno(file_.get())) != 0) throw write_error(path_);
  std::FILE* file = file_.release();
  if (std::fclose(file) != 0) throw write_error(path_);
}

void SafetensorsWriter::write(const void* bytes, std::uint64_t num_bytes) {
  if (num_bytes == 0) return;
  if (std::fwrite(bytes, 1, num_bytes, file_.get()) != num_bytes) throw write_error(path_);
  checksum_ = static_cast<std::uint32_t>(crc32_z(checksum_, static_cast<const unsigned char*>(bytes), num_bytes));
  file_bytes_ += num_bytes;
}

SafetensorsFile::SafetensorsFile(const std::string& path) : path_(path), file_(std::fopen(path.c_str(), "rb")) {
  if (!file_) throw DataError(fmt::format("cannot open {}: {}", path, std::strerror(errno)));
  if (fseeko(file_.get(), 0, SEEK_END) != 0) throw damaged_tensors(path, "it is not a file that can be read");
  const off_t end_of_file = ftello(file_.get());
  if (end_of_file < 0) throw damaged_tensors(path, "it is not a file that can be read");
  const auto file_bytes = static_cast<std::uint64_t>(end_of_file);
  if (file_bytes < 10) throw damaged_tensors(path, fmt::format("it has only {} bytes", file_bytes));
  unsigned char prefix[8];
  std::rewind(file_.get());
  if (std::fread(prefix, 1, 8, file_.get()) != 8) throw damaged_tensors(path, "the header length cannot be read");
  std::uint64_t header_bytes = 0;
  for (int i = 0; i < 8; ++i) header_bytes |= std::uint64_t{prefix[i]} << (8 * i);
  if (header_bytes > max_header_bytes) {
    throw damaged_tensors(
        path, fmt::format("it declares a header of {} bytes, at most {} are allowed", header_bytes, max_header_bytes));
  }
  if (header_bytes > file_bytes - 8) {
    throw damaged_tensors(
        path, fmt::format("it is cut off: the header needs {} bytes, {} are there", header_bytes, file_bytes - 8));
  }
  std::string text(header_bytes, '\0');
  if (std::fread(text.data(), 1, header_bytes, file_.get()) != header_bytes || text.empty() || text[0] != '{') {
    throw damaged_tensors(path, "the header does not begin with '{'");
  }
  HeaderHandler handler;
  if (!nlohmann::json::sax_parse(text, &handler)) throw damaged_tensors(path, handler.problem);

  std::sort(handler.entries.begin(), handler.entries.end(),
            [](const Entry& a, const Entry& b) { return std::tie(a.offsets, a.name) < std::tie(b.offsets, b.name); });
  const std::uint64_t data_bytes = file_bytes - 8 - header_bytes;
  std::uint64_t covered = 0;
  for (const Entry& entry : handler.entries) {
    const Shape shape = shape_of(entry, path);
    if (entry.offsets[0] != covered) {
      throw damaged_tensors(path, fmt::format("tensor '{}' begins at byte {} of the data where {} was expected: {}",
                                              entry.name, entry.offsets[0], covered,
                                              entry.offsets[0] < covered ? "tensors overlap" : "there is a hole"));
    }
    covered = entry.offsets[1];
    if (covered > data_bytes) {
      throw damaged_tensors(path, fmt::format("it is cut off: tensor '{}' ends at byte {} of the data, which has {}",
                                              entry.name, covered, data_bytes));
    }
    const std::optional<DType> type = dtype_of(entry);
    if (!type) {
      foreign_.push_back({entry.name, entry.dtype, shape});
      continue;
    }
    positions_.emplace(entry.name, tensors_.size());
    tensors_.push_back({entry.name, {*type, shape}});
    offsets_.push_back(8 + header_bytes + entry.offsets[0]);
  }
  if (covered != data_bytes) {
    throw damaged_tensors(path, fmt::format("{} bytes after the last tensor belong to none", data_bytes - covered));
  }
  metadata_ = std::move(handler.metadata);
}

std::ptrdiff_t SafetensorsFile::find(std::string_view name) const {
  const auto found = positions_.find(name);
  return found == positions_.end() ? -1 : static_cast<std::ptrdiff_t>(found->second);
}

void SafetensorsFile::read(std::size_t position, void* to) const {
  read(position, 0, tensors_[position].type.num_bytes(), to);
}

void SafetensorsFile::read(std::size_t position, std::int64_t offset, std::int64_t num_bytes, void* to) const {
  if (num_bytes == 0) return;
  const auto begin = static_cast<off_t>(offsets_[position]) + static_cast<off_t>(offset);
  const auto count = static_cast<std::size_t>(num_bytes);
  if (fseeko(file_.get(), begin, SEEK_SET) != 0 || std::fread(to, 1, count, file_.get()) != count) {
    throw damaged_tensors(path_, fmt::format("tensor '{}' cannot be read", tensors_[position].name));
  }
}

}  // namespace trainer
