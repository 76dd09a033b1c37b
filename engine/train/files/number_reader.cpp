#include "engine/train/files/number_reader.h"

#include <algorithm>
#include <cstring>

#include "engine/half.h"

namespace trainer {
namespace {

constexpr std::int64_t most_converted = std::int64_t{32} << 10;

std::int64_t number_bytes(DType type) { return static_cast<std::int64_t>(size_of(type)); }

}  // namespace

void NumberReader::read(const WeightTensor& tensor, std::int64_t first, std::int64_t count, DType wanted,
                        std::byte* to) {
  const DType found = tensor.type.dtype;
  if (found == wanted) return files_.read(tensor, first * number_bytes(found), count * number_bytes(found), to);
  raw_.resize(static_cast<std::size_t>(most_converted * number_bytes(DType::f64)));
  wide_.resize(static_cast<std::size_t>(most_converted));
  for (std::int64_t done = 0; done < count; done += most_converted) {
    const std::int64_t part = std::min(most_converted, count - done);
    files_.read(tensor, (first + done) * number_bytes(found), part * number_bytes(found), raw_.data());
    if (found == DType::f64) {
      for (std::int64_t i = 0; i < part; ++i) {
        double value = 0;
        std::memcpy(&value, raw_.data() + i * number_bytes(DType::f64), sizeof(value));
        wide_[static_cast<std::size_t>(i)] = static_cast<float>(value);
      }
    } else {
      widen(found, raw_.data(), wide_.data(), part);
    }
    narrow(wanted, wide_.data(), to + done * number_bytes(wanted), part);
  }
}

}  // namespace trainer
