#pragma once

#include <zlib.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/datasets/data_files.h"

namespace trainer {

// Files of arrays, byte by byte as their formats' descriptions have them.

inline std::string little_endian(std::uint64_t value, int num_bytes) {
  std::string bytes;
  for (int i = 0; i < num_bytes; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
  return bytes;
}

template <typename Value>
std::string bytes_of_values(const std::vector<Value>& values) {
  std::string bytes(values.size() * sizeof(Value), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

/// A .npy file around a header's dict.
inline std::string npy_with_header(const std::string& dict, const std::string& elements, int major = 1) {
  const int length_bytes = major == 1 ? 2 : 4;
  std::string text = dict;
  while ((8 + static_cast<std::size_t>(length_bytes) + text.size() + 1) % 64 != 0) text.push_back(' ');
  text.push_back('\n');
  return "\x93NUMPY" + std::string{static_cast<char>(major), '\0'} + little_endian(text.size(), length_bytes) + text +
         elements;
}

/// As np.save writes it; the shape as text: "(3, 2)".
inline std::string npy(const std::string& descr, const std::string& shape, const std::string& elements, int major = 1) {
  return npy_with_header("{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }", elements,
                         major);
}

/// How a member of a ZIP archive is written.
struct ZipStyle {
  bool deflated = false;
  bool zip64 = false;  ///< sizes in the extra field, as np.savez streams them
};

inline std::string deflated(const std::string& bytes) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(deflateBound(&stream, bytes.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(packed.size() - stream.avail_out);
  deflateEnd(&stream);
  return packed;
}

/// A ZIP archive of members by name, in order.
inline std::string zip(const std::vector<std::pair<std::string, std::string>>& members, const ZipStyle& style = {}) {
  std::string file, directory;
  for (const auto& [name, content] : members) {
    const std::string packed = style.deflated ? deflated(content) : content;
    const std::uint64_t offset = file.size();
    const std::string crc =
        little_endian(crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size()), 4);
    const std::string method = little_endian(style.deflated ? 8 : 0, 2);
    const std::string extra = style.zip64 ? little_endian(1, 2) + little_endian(16, 2) +
                                                little_endian(content.size(), 8) + little_endian(packed.size(), 8)
                                          : "";
    const std::uint64_t absent = 0xFFFFFFFF;
    const std::string sizes = style.zip64 ? little_endian(absent, 4) + little_endian(absent, 4)
                                          : little_endian(packed.size(), 4) + little_endian(content.size(), 4);
    const std::string version = little_endian(style.zip64 ? 45 : 20, 2);
    const std::string lengths = little_endian(name.size(), 2) + little_endian(extra.size(), 2);
    file += "PK\x03\x04" + version + little_endian(0, 2) + method + little_endian(0, 4) + crc + sizes + lengths + name +
            extra + packed;
    directory += "PK\x01\x02" + version + version + little_endian(0, 2) + method + little_endian(0, 4) + crc + sizes +
                 lengths + little_endian(0, 2) + little_endian(0, 2) + little_endian(0, 2) + little_endian(0, 4) +
                 little_endian(offset, 4) + name + extra;
  }
  const std::string counts = little_endian(members.size(), 2) + little_endian(members.size(), 2);
  return file + directory + "PK\x05\x06" + little_endian(0, 4) + counts + little_endian(directory.size(), 4) +
         little_endian(file.size(), 4) + little_endian(0, 2);
}

struct SafetensorsMember {
  std::string name, dtype, shape;  ///< shape: "[3,2]"
  std::string elements;
};

inline std::string safetensors(const std::vector<SafetensorsMember>& members) {
  std::string header = "{", data;
  for (const SafetensorsMember& member : members) {
    const std::size_t begin = data.size();
    data += member.elements;
    header += (header.size() > 1 ? ",\"" : "\"") + member.name + R"(":{"dtype":")" + member.dtype + R"(","shape":)" +
              member.shape + R"(,"data_offsets":[)" + std::to_string(begin) + "," + std::to_string(data.size()) + "]}";
  }
  header += "}";
  while (header.size() % 8 != 0) header.push_back(' ');
  return little_endian(header.size(), 8) + header + data;
}

}  // namespace trainer
