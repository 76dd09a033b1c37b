#include "engine/plan/touched_pages.h"

#include <catch2/catch.hpp>
#include <random>
#include <set>
#include <vector>

#include "engine/memory/simulated_source.h"

using namespace trainer;

namespace {

constexpr std::int64_t page = std::int64_t{2} << 20;

/// The pages one by one.
class CountedPages {
 public:
  void touch(const void* address, std::int64_t num_bytes) {
    const auto begin = reinterpret_cast<std::uintptr_t>(address);
    for (std::uintptr_t byte = begin; byte < begin + static_cast<std::uintptr_t>(num_bytes); byte += 512)
      pages_.insert(byte / page);
    most_ = std::max(most_, pages_.size());
  }
  void forget(const void* address, std::int64_t num_bytes) {
    const auto begin = reinterpret_cast<std::uintptr_t>(address);
    for (std::uintptr_t byte = begin; byte < begin + static_cast<std::uintptr_t>(num_bytes); byte += 512)
      pages_.erase(byte / page);
  }
  std::int64_t num_bytes() const { return static_cast<std::int64_t>(pages_.size()) * page; }
  std::int64_t most_bytes() const { return static_cast<std::int64_t>(most_) * page; }

 private:
  std::set<std::uintptr_t> pages_;
  std::size_t most_ = 0;
};

struct Segment {
  void* address = nullptr;
  std::int64_t num_bytes = 0;
};

}  // namespace

TEST_CASE("Touched pages are those that blocks have reached, until their segment goes") {
  std::mt19937 random(GENERATE(1, 2, 3));
  const auto below = [&](std::int64_t end) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(end));
  };
  SimulatedSource source(std::int64_t{1} << 40);
  TouchedPages pages(source);
  CountedPages counted;
  std::vector<Segment> segments;
  for (int i = 0; i < 3000; ++i) {
    const std::int64_t choice = below(20);
    if (segments.empty() || choice == 0) {
      const std::int64_t num_bytes = (1 + below(12)) * page;
      segments.push_back({pages.acquire(num_bytes), num_bytes});
    } else if (choice == 1) {
      const auto which = static_cast<std::size_t>(below(static_cast<std::int64_t>(segments.size())));
      counted.forget(segments[which].address, segments[which].num_bytes);
      pages.release(segments[which].address, segments[which].num_bytes);
      segments.erase(segments.begin() + static_cast<std::ptrdiff_t>(which));
    } else {
      const Segment& segment = segments[static_cast<std::size_t>(below(static_cast<std::int64_t>(segments.size())))];
      const std::int64_t offset = below(segment.num_bytes / 512) * 512;
      const std::int64_t num_bytes = std::min((1 + below(4096)) * 512, segment.num_bytes - offset);
      const void* const block = static_cast<const std::byte*>(segment.address) + offset;
      counted.touch(block, num_bytes);
      pages.touch(block, num_bytes);
    }
    REQUIRE(pages.touched_bytes() == counted.num_bytes());
    REQUIRE(pages.peak_touched_bytes() == counted.most_bytes());
  }
}

TEST_CASE("Pages that are unmapped in the middle of a range are touched no more") {
  SimulatedSource source(std::int64_t{1} << 40);
  TouchedPages pages(source);
  auto* const range = static_cast<std::byte*>(pages.reserve_range(10 * page));
  REQUIRE(pages.map(range, 10 * page));
  pages.touch(range, 10 * page);
  pages.unmap(range + 3 * page, 2 * page);
  CHECK(pages.touched_bytes() == 8 * page);
  REQUIRE(pages.map(range + 3 * page, 2 * page));
  CHECK(pages.touched_bytes() == 8 * page);
  pages.touch(range + 4 * page - 1, 2);
  CHECK(pages.touched_bytes() == 10 * page);
  CHECK(pages.peak_touched_bytes() == 10 * page);
}
