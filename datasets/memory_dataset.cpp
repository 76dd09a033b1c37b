#include "datasets/memory_dataset.h"

#include <zlib.h>

namespace trainer {

std::optional<std::uint32_t> MemoryDataset::content_crc32() const {
  uLong sum = 0;
  for (const std::vector<std::byte>* bytes : {&samples_, &targets_})
    sum = crc32_z(sum, reinterpret_cast<const Bytef*>(bytes->data()), bytes->size());
  return static_cast<std::uint32_t>(sum);
}

}  // namespace trainer
