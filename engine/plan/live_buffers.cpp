#include "engine/plan/live_buffers.h"

#include <algorithm>

namespace trainer {

LiveBuffers::LiveBuffers(const Program& program, Allocator& allocator)
    : program_(program),
      allocator_(allocator),
      is_persistent_(persistent_buffers(program)),
      blocks_(program.buffers.size()) {}

LiveBuffers::~LiveBuffers() { release_all(); }

void LiveBuffers::allocate(BufferId buffer) {
  const std::int64_t num_bytes = program_.buffers[buffer].num_bytes;
  const Placement* places = program_.placement ? &*program_.placement : nullptr;
  if (transient_places_ && is_persistent_[buffer] == 0) places = transient_places_.get();
  blocks_[buffer] =
      places != nullptr ? allocator_.allocate_at(num_bytes, places->offsets[buffer]) : allocator_.allocate(num_bytes);
}

void LiveBuffers::release(BufferId buffer) noexcept {
  allocator_.free(blocks_[buffer]);
  blocks_[buffer] = Block{};
}

void LiveBuffers::release_all() noexcept {
  // The last one first: a planned segment closes the gap that each leaves in its list.
  for (std::size_t b = blocks_.size(); b-- > 0;)
    if (is_live(static_cast<BufferId>(b))) release(static_cast<BufferId>(b));
}

void LiveBuffers::release_transient() noexcept {
  for (std::size_t b = 0; b < blocks_.size(); ++b)
    if (is_persistent_[b] == 0 && is_live(static_cast<BufferId>(b))) release(static_cast<BufferId>(b));
}

bool LiveBuffers::holds_only_persistent() const {
  for (std::size_t b = 0; b < blocks_.size(); ++b)
    if ((is_persistent_[b] != 0) != is_live(static_cast<BufferId>(b))) return false;
  return true;
}

CategoryBytes LiveBuffers::by_category() const {
  CategoryBytes bytes{};
  for (std::size_t b = 0; b < blocks_.size(); ++b)
    bytes[static_cast<std::size_t>(program_.buffers[b].category)] += blocks_[b].size;
  return bytes;
}

std::vector<CategoryBytes> LiveBuffers::by_layer() const {
  std::vector<CategoryBytes> bytes(program_.layers.size() + 1);
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    const Buffer& buffer = program_.buffers[b];
    CategoryBytes& of_layer =
        bytes[buffer.layer == no_layer ? program_.layers.size() : static_cast<std::size_t>(buffer.layer)];
    of_layer[static_cast<std::size_t>(buffer.category)] += blocks_[b].size;
  }
  return bytes;
}

std::vector<BufferId> LiveBuffers::largest(int count) const {
  std::vector<BufferId> live;
  for (std::size_t b = 0; b < blocks_.size(); ++b)
    if (is_live(static_cast<BufferId>(b))) live.push_back(static_cast<BufferId>(b));
  const auto num_kept = std::min(live.size(), static_cast<std::size_t>(count));
  std::partial_sort(live.begin(), live.begin() + static_cast<std::ptrdiff_t>(num_kept), live.end(),
                    [&](BufferId a, BufferId b) {
                      return blocks_[a].size != blocks_[b].size ? blocks_[a].size > blocks_[b].size : a < b;
                    });
  live.resize(num_kept);
  return live;
}

}  // namespace trainer
