#include "datasets/text/vocabulary.h"

#include <bit>

#include "engine/errors.h"

namespace trainer {

Vocabulary::Vocabulary(std::span<const VocabularyEntry> entries) {
  std::size_t num_ids = 0, num_bytes = 0;
  for (const VocabularyEntry& entry : entries) {
    require_internal(entry.id < most_token_ids && !entry.bytes.empty(), "a token has bytes, and a number in its range");
    num_ids = std::max(num_ids, std::size_t{entry.id} + 1);
    num_bytes += entry.bytes.size();
  }
  require_internal(num_bytes <= UINT32_MAX, "a vocabulary holds less than 4 GiB");
  begins_.assign(num_ids + 1, 0);
  std::vector<const VocabularyEntry*> by_id(num_ids);
  for (const VocabularyEntry& entry : entries) {
    require_internal(by_id[entry.id] == nullptr, "a token's number is its own");
    by_id[entry.id] = &entry;
  }
  bytes_.reserve(num_bytes);
  for (std::size_t id = 0; id < num_ids; ++id) {
    begins_[id] = static_cast<std::uint32_t>(bytes_.size());
    if (by_id[id] != nullptr) bytes_ += by_id[id]->bytes;
  }
  begins_[num_ids] = static_cast<std::uint32_t>(bytes_.size());

  slots_.resize(std::bit_ceil(2 * entries.size() + 2));
  mask_ = slots_.size() - 1;
  for (const VocabularyEntry& entry : entries) {
    if (!entry.is_found) continue;
    const std::uint64_t hash = byte_hash(entry.bytes);
    std::size_t slot = hash & mask_;
    while (slots_[slot].id_and_one != 0) slot = (slot + 1) & mask_;
    slots_[slot] = {static_cast<std::uint32_t>(hash >> 32U), entry.id + 1};
  }
}

}  // namespace trainer
