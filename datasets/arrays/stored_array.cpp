#include "datasets/arrays/stored_array.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <span>
#include <string_view>

#include "datasets/arrays/inflated_bytes.h"
#include "datasets/arrays/npy_header.h"
#include "datasets/arrays/zip_directory.h"
#include "engine/files/safetensors_header.h"

namespace trainer {
namespace {

struct ArrayTypeName {
  std::string_view name;  ///< as the format spells it
  ArrayElement element;
};
constexpr ArrayTypeName npy_type_names[] = {
    {"b1", ArrayElement::b1},  {"i1", ArrayElement::i8},  {"i2", ArrayElement::i16}, {"i4", ArrayElement::i32},
    {"i8", ArrayElement::i64}, {"u1", ArrayElement::u8},  {"u2", ArrayElement::u16}, {"u4", ArrayElement::u32},
    {"u8", ArrayElement::u64}, {"f2", ArrayElement::f16}, {"f4", ArrayElement::f32}, {"f8", ArrayElement::f64}};
constexpr ArrayTypeName safetensors_type_names[] = {
    {"BOOL", ArrayElement::b1}, {"I8", ArrayElement::i8},   {"I16", ArrayElement::i16},   {"I32", ArrayElement::i32},
    {"I64", ArrayElement::i64}, {"U8", ArrayElement::u8},   {"U16", ArrayElement::u16},   {"U32", ArrayElement::u32},
    {"U64", ArrayElement::u64}, {"F16", ArrayElement::f16}, {"BF16", ArrayElement::bf16}, {"F32", ArrayElement::f32},
    {"F64", ArrayElement::f64}};

std::optional<ArrayElement> element_called(std::span<const ArrayTypeName> names, std::string_view name) {
  for (const ArrayTypeName& known : names)
    if (known.name == name) return known.element;
  return std::nullopt;
}

std::string numpy_dims_text(std::span<const std::uint64_t> dims) {
  return fmt::format("({}{})", fmt::join(dims, ", "), dims.size() == 1 ? "," : "");
}

/// Where messages say an array is: its file, with its name.
std::string array_source_text(const ArrayFile& file, const std::string& name) {
  return name.empty() ? file.path() : fmt::format("{}, '{}'", file.path(), name);
}

/// Why an array of that dtype is refused.
std::string npy_type_refusal(std::string_view descr) {
  if (descr.starts_with('[') || descr.starts_with('('))
    return "it has a structured dtype; save each of its fields as an array of its own: np.save(\"x.npy\", "
           "x[\"field\"])";
  if (descr.find('O') != std::string_view::npos)
    return "it holds Python objects (a pickle), which are never loaded; "
           "save numbers instead: np.save(\"x.npy\", np.stack(list(x)))";
  const std::string_view kind = descr.substr(!descr.empty() && (descr[0] == '<' || descr[0] == '>' || descr[0] == '|'));
  if (kind.starts_with('c')) return "it is complex; save its parts: np.stack([x.real, x.imag], -1)";
  if (kind.starts_with('U') || kind.starts_with('S'))
    return "it holds text; save the classes as numbers: np.unique(y, return_inverse=True)[1]";
  if (descr.starts_with('>') && element_called(npy_type_names, kind))
    return "it is big-endian; convert it: np.save(\"x.npy\", x.astype(x.dtype.newbyteorder(\"<\")))";
  return "its dtype is none of bool, int8 to int64, uint8 to uint64, float16, float32 and float64; "
         "convert it: np.save(\"x.npy\", x.astype(np.float32))";
}

std::string npy_type_text(std::string_view descr) {
  const std::string_view kind = descr.substr(!descr.empty() && (descr[0] == '<' || descr[0] == '|' || descr[0] == '='));
  if (const auto element = element_called(npy_type_names, kind)) return std::string(name_of(*element));
  return fmt::format("dtype '{}'", descr.substr(0, 40));
}

/// Why an array of that shape is refused; empty: it is not, and `shape` is it.
std::string shape_refusal(std::span<const std::uint64_t> dims, std::size_t element_bytes, Shape& shape) {
  if (dims.empty()) return "it is one number, without a dimension of samples";
  if (dims.size() > static_cast<std::size_t>(Shape::max_rank))
    return fmt::format("it has {} dimensions, at most {} are read", dims.size(), Shape::max_rank);
  std::uint64_t num_bytes = element_bytes;
  std::vector<std::int64_t> signed_dims;
  for (const std::uint64_t dim : dims) {
    if (dim == 0) return "it is empty";
    if (__builtin_mul_overflow(num_bytes, dim, &num_bytes) || num_bytes > (std::uint64_t{1} << 60))
      return "its shape is one that no file can hold";
    signed_dims.push_back(static_cast<std::int64_t>(dim));
  }
  shape = Shape(std::span<const std::int64_t>(signed_dims));
  return "";
}

/// Of a header, with where it lies left open.
StoredArray array_of_npy(const NpyHeader& header, const std::string& name) {
  StoredArray array;
  array.name = name;
  array.type = fmt::format("{} {}", npy_type_text(header.descr), numpy_dims_text(header.dims));
  array.header_bytes = header.num_bytes;
  const std::string_view descr = header.descr;
  const bool has_order = !descr.empty() && (descr[0] == '<' || descr[0] == '|' || descr[0] == '=' || descr[0] == '>');
  const auto element = element_called(npy_type_names, descr.substr(has_order));
  if (!element || (descr[0] == '>' && size_of(*element) > 1)) {
    array.refusal = npy_type_refusal(descr);
    return array;
  }
  array.element = *element;
  array.refusal = shape_refusal(header.dims, size_of(*element), array.shape);
  std::size_t num_long = 0;
  for (const std::uint64_t dim : header.dims) num_long += dim > 1;
  if (array.refusal.empty() && header.fortran_order && num_long > 1)
    array.refusal =
        "it is in Fortran order, a sample's numbers lie apart; convert it: "
        "np.save(\"x.npy\", np.ascontiguousarray(x))";
  return array;
}

/// A damaged or lying header: the elements are more or fewer than what is there.
void check_npy_bytes(const StoredArray& array, const std::string& source, std::uint64_t num_bytes) {
  if (!array.refusal.empty()) return;
  const std::uint64_t expected = array.header_bytes + array.num_bytes();
  if (num_bytes == expected) return;
  throw array_error(source, fmt::format("{} {} bytes, expected {}: a header of {} and {}",
                                        num_bytes < expected ? "it is cut off:" : "it goes on: it has", num_bytes,
                                        expected, array.header_bytes, array.type));
}

StoredArray read_npy(const ArrayFile& file, const std::string& name, std::uint64_t begin, std::uint64_t num_bytes) {
  const std::string source = array_source_text(file, name);
  std::uint64_t done = 0;
  const NpyHeader header = read_npy_header(source, [&](void* to, std::size_t count) {
    if (count > num_bytes - done)
      throw array_error(source, fmt::format("it is cut off in its header, after {} bytes", num_bytes));
    file.read(begin + done, count, to);
    done += count;
  });
  StoredArray array = array_of_npy(header, name);
  array.begin = begin + header.num_bytes;
  check_npy_bytes(array, source, num_bytes);
  return array;
}

StoredArray read_deflated_npy(const ArrayFile& file, const std::string& name, const ZipEntry& entry) {
  InflatedBytes bytes(file, entry.begin, entry.stored_bytes);
  const std::string source = array_source_text(file, name);
  const NpyHeader header = read_npy_header(source, [&](void* to, std::size_t count) { bytes.read(to, count); });
  StoredArray array = array_of_npy(header, name);
  array.begin = header.num_bytes;
  array.deflated_begin = entry.begin;
  array.deflated_bytes = entry.stored_bytes;
  check_npy_bytes(array, source, entry.num_bytes);
  return array;
}

std::vector<StoredArray> list_npz(const ArrayFile& file) {
  constexpr std::string_view suffix = ".npy";
  std::vector<StoredArray> arrays;
  bool is_pytorch = false;
  for (const ZipEntry& entry : read_zip_directory(file)) {
    is_pytorch = is_pytorch || entry.name.ends_with("data.pkl");
    if (!entry.name.ends_with(suffix)) continue;
    const std::string name = entry.name.substr(0, entry.name.size() - suffix.size());
    arrays.push_back(entry.deflated ? read_deflated_npy(file, name, entry)
                                    : read_npy(file, name, entry.begin, entry.stored_bytes));
    arrays.back().crc32 = entry.crc32;
  }
  if (is_pytorch && arrays.empty())
    throw array_error(file.path(),
                      "it is a file of torch.save (a pickle), which is never loaded; save its tensors by "
                      "safetensors.torch.save_file({\"x\": x, \"y\": y}, \"train.safetensors\")");
  if (arrays.empty()) throw array_error(file.path(), "it is a ZIP archive without an array (NAME.npy) in it");
  return arrays;
}

std::vector<StoredArray> list_safetensors(const ArrayFile& file) {
  const SafetensorsHeader header = read_safetensors_header(
      file.path(), file.num_bytes(), [&](std::uint64_t offset, std::uint64_t num_bytes, void* to) {
        file.read(offset, static_cast<std::size_t>(num_bytes), to);
        return true;
      });
  std::vector<StoredArray> arrays;
  for (const SafetensorsEntry& entry : header.entries) {
    StoredArray& array = arrays.emplace_back();
    array.name = entry.name;
    array.begin = entry.begin;
    const auto element = element_called(safetensors_type_names, entry.dtype);
    array.type = fmt::format("{} {}", element ? name_of(*element) : entry.dtype, numpy_text(entry.shape));
    if (!element) {
      array.refusal = fmt::format("its type {} is none that arrays have; convert it: x.float()", entry.dtype);
      continue;
    }
    array.element = *element;
    const std::vector<std::uint64_t> dims(entry.shape.begin(), entry.shape.end());
    array.refusal = shape_refusal(dims, size_of(*element), array.shape);
  }
  if (arrays.empty()) throw array_error(file.path(), "it holds no array");
  return arrays;
}

}  // namespace

std::string numpy_text(const Shape& shape) {
  const std::vector<std::uint64_t> dims(shape.begin(), shape.end());
  return numpy_dims_text(dims);
}

std::vector<StoredArray> list_stored_arrays(const ArrayFile& file) {
  std::array<unsigned char, 9> start{};
  if (file.num_bytes() < start.size())
    throw array_error(file.path(),
                      fmt::format("it has only {} bytes, and is no .npy, .npz or safetensors file", file.num_bytes()));
  file.read(0, start.size(), start.data());
  const std::string_view text(reinterpret_cast<const char*>(start.data()), start.size());
  if (text.starts_with(npy_magic)) return {read_npy(file, "", 0, file.num_bytes())};
  if (text.starts_with("PK\x03\x04") || text.starts_with("PK\x05\x06")) return list_npz(file);
  if (text.back() == '{') return list_safetensors(file);
  std::string hint;
  if (text.starts_with("\x1f\x8b")) hint = "; it is packed with gzip: gunzip it";
  if (text.starts_with("\x89HDF")) hint = "; it is HDF5: np.save(\"x.npy\", h5py.File(\"file.h5\")[\"x\"][:])";
  if (text.starts_with("\x80")) hint = "; it is a pickle, which is never loaded: np.save(\"x.npy\", x)";
  throw array_error(file.path(), fmt::format("it is no .npy, .npz or safetensors file{}", hint));
}

}  // namespace trainer
