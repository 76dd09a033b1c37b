#include "engine/plan/touched_pages.h"

#include <algorithm>
#include <iterator>

namespace trainer {
namespace {

constexpr std::uintptr_t page_bytes = std::uintptr_t{2} << 20;

}  // namespace

void TouchedPages::touch(const void* address, std::int64_t num_bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(address);
  std::uintptr_t begin = first / page_bytes * page_bytes;
  std::uintptr_t end = (first + static_cast<std::uintptr_t>(num_bytes) + page_bytes - 1) / page_bytes * page_bytes;
  auto next = ranges_.upper_bound(begin);
  if (next != ranges_.begin() && std::prev(next)->second >= begin) --next;
  if (next != ranges_.end() && next->first <= begin && next->second >= end) return;
  while (next != ranges_.end() && next->first <= end) {
    begin = std::min(begin, next->first);
    end = std::max(end, next->second);
    touched_bytes_ -= static_cast<std::int64_t>(next->second - next->first);
    next = ranges_.erase(next);
  }
  ranges_.emplace_hint(next, begin, end);
  touched_bytes_ += static_cast<std::int64_t>(end - begin);
  peak_touched_bytes_ = std::max(peak_touched_bytes_, touched_bytes_);
}

void TouchedPages::release(void* address, std::int64_t num_bytes) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  forget(begin, (begin + static_cast<std::uintptr_t>(num_bytes) + page_bytes - 1) / page_bytes * page_bytes);
  source_.release(address, num_bytes);
}

void TouchedPages::unmap(void* address, std::int64_t num_bytes) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  forget(begin, begin + static_cast<std::uintptr_t>(num_bytes));
  source_.unmap(address, num_bytes);
}

void TouchedPages::forget(std::uintptr_t begin, std::uintptr_t end) noexcept {
  auto range = ranges_.upper_bound(begin);
  if (range != ranges_.begin() && std::prev(range)->second > begin) --range;
  while (range != ranges_.end() && range->first < end) {
    const auto [from, to] = *range;
    touched_bytes_ -= static_cast<std::int64_t>(std::min(to, end) - std::max(from, begin));
    range = ranges_.erase(range);
    if (from < begin) ranges_.emplace(from, begin);
    if (to > end) range = ranges_.emplace(end, to).first;
  }
}

}  // namespace trainer
