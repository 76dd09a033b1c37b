#include "engine/batch_part.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "datasets/sampler.h"

using namespace trainer;

TEST_CASE("parts of a batch have each sample once, in order, and differ by one sample at most") {
  for (std::int64_t samples = 0; samples <= 40; ++samples)
    for (std::int64_t ranks = 1; ranks <= 9; ++ranks) {
      std::int64_t next = 0, least = samples, most = 0;
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        const BatchPart part = part_of_batch(samples, ranks, rank);
        REQUIRE(part.begin == next);
        next += part.count;
        least = std::min(least, part.count);
        most = std::max(most, part.count);
      }
      REQUIRE(next == samples);
      REQUIRE(most - least <= 1);
    }
}

TEST_CASE("the samplers of all ranks give together what one gives, batch by batch") {
  for (const std::int64_t samples : {1, 7, 23, 64})
    for (const std::int64_t batch_size : {1, 5, 8, 100})
      for (const std::int64_t ranks : {2, 3, 4, 8}) {
        const Sampler one({.num_samples = samples, .batch_size = batch_size, .shuffle = true, .seed = 3});
        for (std::int64_t batch = 0; batch < one.num_batches(); ++batch) {
          std::int64_t position = one.begin_of_batch(batch);
          for (std::int64_t rank = 0; rank < ranks; ++rank) {
            const Sampler part({.num_samples = samples,
                                .batch_size = batch_size,
                                .shuffle = true,
                                .seed = 3,
                                .parts = {.num_parts = ranks, .first = rank}});
            REQUIRE(part.num_batches() == one.num_batches());
            REQUIRE(part.begin_of_batch(batch) == position);
            REQUIRE(part.size_of_batch(batch) <= part.batch_size());
            position += part.size_of_batch(batch);
          }
          REQUIRE(position == one.begin_of_batch(batch) + one.size_of_batch(batch));
        }
      }
}

TEST_CASE("a rank of several parts gets them one by one, all ranks together each sample once") {
  for (const std::int64_t samples : {37, 64, 5})
    for (const std::int64_t batch_size : {16, 9})
      for (const std::int64_t num_ranks : {1, 2, 4, 8})
        for (const bool one_behind_the_other : {true, false}) {
          const std::int64_t num_own = 8 / num_ranks;
          std::vector<int> times(static_cast<std::size_t>(samples));
          const Sampler whole({.num_samples = samples, .batch_size = batch_size});
          for (std::int64_t rank = 0; rank < num_ranks; ++rank) {
            const BatchParts parts =
                one_behind_the_other
                    ? BatchParts{.num_parts = 8, .num_own = num_own, .first = rank * num_own}
                    : BatchParts{.num_parts = 8, .num_own = num_own, .first = rank, .stride = num_ranks};
            const Sampler sampler({.num_samples = samples, .batch_size = batch_size, .parts = parts});
            REQUIRE(sampler.num_batches() == whole.num_batches() * num_own);
            for (std::int64_t batch = 0; batch < sampler.num_batches(); ++batch) {
              REQUIRE(sampler.size_of_batch(batch) <= sampler.batch_size());
              for (std::int64_t i = 0; i < sampler.size_of_batch(batch); ++i) {
                const std::int64_t position = sampler.begin_of_batch(batch) + i;
                REQUIRE(position / whole.batch_size() == sampler.whole_of(batch));
                ++times[static_cast<std::size_t>(position)];
              }
            }
          }
          REQUIRE(std::all_of(times.begin(), times.end(), [](int each) { return each == 1; }));
        }
}
