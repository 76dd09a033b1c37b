#include "datasets/image/retained_memory.h"

#include <algorithm>
#include <limits>
#include <new>

namespace trainer {

/// The beginning of an allocation.
struct RetainedMemory::Block {
  Block* older;
};

void RetainedMemory::reserve(std::int64_t num_bytes) {
  if (num_bytes > 0 && !add_block(static_cast<std::size_t>(num_bytes))) throw std::bad_alloc();
}

bool RetainedMemory::add_block(std::size_t num_bytes) noexcept {
  void* memory = ::operator new (num_bytes, std::align_val_t{alignment}, std::nothrow);
  if (memory == nullptr) return false;
  blocks_ = new (memory) Block{blocks_};
  newest_size_ = num_bytes;
  used_of_newest_ = alignment;
  used_ += alignment;
  capacity_ += num_bytes;
  return true;
}

void* RetainedMemory::allocate(std::size_t num_bytes) noexcept {
  constexpr std::size_t first_block = std::size_t{64} << 10;
  if (num_bytes > std::numeric_limits<std::size_t>::max() / 4) return nullptr;
  const auto needed = static_cast<std::size_t>(piece_bytes(static_cast<std::int64_t>(num_bytes)));
  if (blocks_ == nullptr || newest_size_ - used_of_newest_ < needed) {
    const std::size_t size = std::max({needed + alignment, least_block_, first_block, capacity_});
    if (!add_block(size)) return nullptr;
  }
  std::byte* piece = reinterpret_cast<std::byte*>(blocks_) + used_of_newest_;
  used_of_newest_ += needed;
  used_ += needed;
  return piece;
}

std::uint8_t* RetainedMemory::allocate_bytes(std::int64_t num_bytes) {
  void* const piece = allocate(static_cast<std::size_t>(num_bytes));
  if (piece == nullptr) throw std::bad_alloc();
  return static_cast<std::uint8_t*>(piece);
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
