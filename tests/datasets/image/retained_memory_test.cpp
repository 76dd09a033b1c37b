#include "datasets/image/retained_memory.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

using namespace trainer;

TEST_CASE("retained memory gives out pieces that are aligned and apart") {
  RetainedMemory memory;
  for (int round = 0; round < 3; ++round) {
    memory.take_back();
    std::vector<std::pair<unsigned char*, std::size_t>> pieces;
    for (const std::size_t size : {0, 1, 63, 64, 65, 5000, 200000, 7, 1000000, 300}) {
      auto* piece = static_cast<unsigned char*>(memory.allocate(size));
      REQUIRE(piece != nullptr);
      CHECK(reinterpret_cast<std::uintptr_t>(piece) % RetainedMemory::alignment == 0);
      std::memset(piece, static_cast<int>(pieces.size()), size);
      pieces.emplace_back(piece, size);
    }
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const auto [piece, size] = pieces[i];
      CHECK(static_cast<std::size_t>(std::count(piece, piece + size, static_cast<unsigned char>(i))) == size);
    }
  }
}

TEST_CASE("retained memory holds once what is used at a time, whatever it was made of") {
  RetainedMemory memory;
  CHECK(memory.capacity() == 0);
  const auto use = [&](int num_pieces) {
    memory.take_back();
    for (int i = 0; i < num_pieces; ++i) REQUIRE(memory.allocate(10000) != nullptr);
  };
  for (int i = 0; i < 2; ++i) use(100);
  const std::size_t kept = memory.capacity();
  CHECK(kept >= 1000000);
  CHECK(kept < 1100000);
  for (const int num_pieces : {3, 100, 0, 50}) use(num_pieces);
  CHECK(memory.capacity() == kept);
}

// Sanitizers end a program that asks for so much.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("retained memory gives nothing where more is asked for than there is") {
  RetainedMemory memory;
  CHECK(memory.allocate(std::numeric_limits<std::size_t>::max()) == nullptr);
  CHECK(memory.allocate(std::numeric_limits<std::size_t>::max() / 8) == nullptr);
  CHECK(memory.allocate(100) != nullptr);
}
#endif
