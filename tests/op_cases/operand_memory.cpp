#include "tests/op_cases/operand_memory.h"

#include <algorithm>

#include "engine/memory/host_source.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace trainer {

namespace {

constexpr std::size_t alignment = 512;
constexpr std::size_t guard_bytes = 512;
constexpr std::byte guard{0xA5};

}  // namespace

OperandMemory::~OperandMemory() {
  if (segment_ == nullptr) return;
  unpoison();
  source_->release(segment_, static_cast<std::int64_t>(image_.size()));
}

std::size_t OperandMemory::add(const std::vector<std::byte>& bytes) {
  if (image_.empty()) image_.assign(guard_bytes, guard);
  offsets_.push_back(image_.size());
  sizes_.push_back(bytes.size());
  image_.insert(image_.end(), bytes.begin(), bytes.end());
  image_.resize((image_.size() + guard_bytes + alignment - 1) / alignment * alignment, guard);
  return offsets_.size() - 1;
}

void OperandMemory::to_device() {
  const auto num_bytes = static_cast<std::int64_t>(image_.size());
  source_ = device_.make_memory_source(num_bytes);
  segment_ = static_cast<std::byte*>(source_->acquire(num_bytes));
  require_internal(segment_ != nullptr, "a device has memory for one op's operands");
  device_.copy_to_device(segment_, image_.data(), num_bytes);
  device_.synchronize();
  poison_guards();
}

void OperandMemory::to_host() {
  device_.synchronize();
  unpoison();
  device_.copy_to_host(image_.data(), segment_, static_cast<std::int64_t>(image_.size()));
  device_.synchronize();
}

std::vector<std::byte> OperandMemory::bytes(std::size_t operand) const {
  const std::byte* const first = image_.data() + offsets_[operand];
  return {first, first + sizes_[operand]};
}

bool OperandMemory::guards_hold(std::size_t operand) const {
  const std::byte* const first = image_.data() + offsets_[operand];
  const std::byte* const end = first + sizes_[operand];
  const auto intact = [](std::byte byte) { return byte == guard; };
  return std::all_of(first - guard_bytes, first, intact) && std::all_of(end, end + guard_bytes, intact);
}

void OperandMemory::poison_guards() {
#if defined(__SANITIZE_ADDRESS__)
  if (dynamic_cast<const HostSource*>(source_.get()) == nullptr) return;
  ASAN_POISON_MEMORY_REGION(segment_, image_.size());
  for (std::size_t i = 0; i < offsets_.size(); ++i) ASAN_UNPOISON_MEMORY_REGION(segment_ + offsets_[i], sizes_[i]);
#endif
}

void OperandMemory::unpoison() {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_UNPOISON_MEMORY_REGION(segment_, image_.size());
#endif
}

}  // namespace trainer
