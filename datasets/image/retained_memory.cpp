#include "datasets/image/retained_memory.h"

#include <algorithm>
#include <limits>
#include <new>

namespace trainer {

/// The beginning of an allocation.
struct RetainedMemory::Block {
  Block* older;
};

void* RetainedMemory::allocate(std::size_t num_bytes) noexcept {
  constexpr std::size_t first_block = std::size_t{64} << 10;
  if (num_bytes > std::numeric_limits<std::size_t>::max() / 4) return nullptr;
  const std::size_t needed = (std::max<std::size_t>(num_bytes, 1) + alignment - 1) / alignment * alignment;
  if (blocks_ == nullptr || newest_size_ - used_of_newest_ < needed) {
    const std::size_t size = std::max({needed + alignment, least_block_, first_block, capacity_});
    void* memory = ::operator new (size, std::align_val_t{alignment}, std::nothrow);
    if (memory == nullptr) return nullptr;
    blocks_ = new (memory) Block{blocks_};
    newest_size_ = size;
    used_of_newest_ = alignment;
    used_ += alignment;
    capacity_ += size;
  }
  std::byte* piece = reinterpret_cast<std::byte*>(blocks_) + used_of_newest_;
  used_of_newest_ += needed;
  used_ += needed;
  return piece;
}

void RetainedMemory::take_back() noexcept {
  if (blocks_ != nullptr && blocks_->older != nullptr) {
    // One block is to hold what several did.
    least_block_ = std::max(least_block_, used_);
    release();
  }
  used_of_newest_ = used_ = alignment;
}

void RetainedMemory::release() noexcept {
  while (blocks_ != nullptr) {
    Block* block = blocks_;
    blocks_ = block->older;
    ::operator delete (block, std::align_val_t{alignment});
  }
  capacity_ = newest_size_ = 0;
}

}  // namespace trainer
